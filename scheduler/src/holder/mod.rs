//! The holder: a process that keeps what must outlive `mgbd`.
//!
//! Programs run under an MPS control daemon of their own user, and the driver takes down what a process has
//! on a GPU with the last open file by which it knows that process. Neither may end because `mgbd` does: so
//! both are with a small process in a session of its own, `mgbd hold`, which `mgbd` starts and talks to over
//! a line that the holder inherits. A later `mgbd` finds a socket in the private folder
//! (`folders`) and goes on with it, if each is such a process as the other one
//! (`kinship`). One that the holder starts inherits its line.
//!
//! The holder has a pidfd, the channel, the socket and the driver's files of every client, the socket at
//! which clients connect, and the journal ([`crate::journal`]). As long as these are open nobody notices that
//! `mgbd` is gone: whoever waits or comes is served by the next one, which the holder starts. It ends when
//! there is no `mgbd` and none of these processes is left, and stops MPS then; it never stops MPS under a
//! client.
//!
//! | module   | job |
//! |----------|-----|
//! | `wire`   | what `mgbd` and the holder say to each other |
//! | `packet` | messages with descriptors |
//! | `held`   | one process, and what is held of it |
//! | `left`   | what else an `mgbd` leaves to the next one |
//! | `again`  | starting `mgbd` again |
//! | `guests` | who connects |
//! | `candidate` | an `mgbd` that comes before the last one is seen to be gone |
//! | `mps`    | the MPS control daemon |
//! | `watched_mps` | starting it again |
//! | `serve`  | the loop |
//! | `report` | asking a holder who is left |

mod again;
mod candidate;
mod guests;
mod held;
mod left;
mod mps;
pub(crate) mod packet;
mod report;
mod serve;
mod watched_mps;
pub(crate) mod wire;

use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

use crate::folders::Private;
use crate::kinship;

pub use again::{AGAIN, Again};
pub use mps::{Control, MOST_PATH, control, pipe_of};
pub use report::{HolderReport, report};
pub use serve::{HoldError, run};

/// MPS's control program.
pub const MPS_CONTROL: &str = "nvidia-cuda-mps-control";

/// Where the holder listens, in the private folder.
const SOCKET: &str = "holder";
/// What it locks there.
const LOCK: &str = "holder.lock";

/// A connection to the holder of the `mgbd` at this socket; `None`: there is none.
///
/// # Errors
/// When the private folder is not this user's alone, or who listens there is another one than this process.
pub(crate) fn find(mgbd: &Path) -> std::io::Result<Option<OwnedFd>> {
    let private = match Private::find(mgbd) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        private => private?,
    };
    let line = packet::line()?;
    match rustix::net::connect(&line, &SocketAddrUnix::new(private.path(SOCKET))?) {
        Ok(()) => {}
        // What a killed one left.
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    match kinship::check(&line) {
        // It was about to end.
        Err(kinship::Stranger::Gone) => Ok(None),
        Err(why) => {
            let why = format!("who listens as the holder is none of ours: {why}");
            Err(Error::new(ErrorKind::PermissionDenied, why))
        }
        Ok(_) => Ok(Some(line)),
    }
}
