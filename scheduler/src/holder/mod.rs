//! The holder: a process that keeps what must outlive `mgbd`.
//!
//! Programs run under an MPS control daemon of their own user, and the driver takes down what a process has
//! on a GPU with the last open file by which it knows that process. Neither may end because `mgbd` does: so
//! both are with a small process in a session of its own, `mgbd hold`, which `mgbd` starts and talks to over
//! a socket beside its own. A later `mgbd` finds the holder there and goes on with it.
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
//! | `mps`    | the MPS control daemon |
//! | `serve`  | the loop |
//! | `report` | asking a holder who is left |

mod again;
mod held;
mod left;
mod mps;
pub(crate) mod packet;
mod report;
mod serve;
pub(crate) mod wire;

use std::path::{Path, PathBuf};

pub use again::AGAIN;
pub use mps::{Control, MOST_PATH, control, pipe_of};
pub use report::{Report, report};
pub use serve::{HoldError, run};
pub use wire::Again;

/// MPS's control program.
pub const MPS_CONTROL: &str = "nvidia-cuda-mps-control";

/// A path beside the socket of `mgbd`: that of the holder's socket, of its lock, of the log.
pub(crate) fn beside(socket: &Path, ending: &str) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Where the holder of an `mgbd` listens.
pub(crate) fn socket_of(mgbd: &Path) -> PathBuf {
    beside(mgbd, ".holder")
}
