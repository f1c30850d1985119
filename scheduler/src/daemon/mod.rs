//! `mgbd`: one thread, one epoll loop, over the broker.
//!
//! | module     | job |
//! |------------|-----|
//! | `server`   | the loop: what happened, and what follows from it |
//! | `connections` | clients come, ask and go |
//! | `listener` | the socket: its folder, its lock, one `mgbd` at a time |
//! | `greet`    | the handshake, and what it refuses |
//! | `client`   | one client's channel, read as untrusted |
//! | `activity` | how busy clients have been lately |
//! | `sight`    | what NVML shows against what the clients say |
//! | `overhead` | what clients' processes have beside their tasks |
//! | `reclaim`  | rooms of the dead, from the death to NVML's free |
//! | `keep`     | files of the driver's that outlive their process |
//! | `remember` | the file of what programs took |
//! | `show`     | the node view |
//! | `hold`     | what the loop has the holder hold |
//! | `holder`   | the process that keeps what outlives `mgbd`, MPS among it |
//! | `family`   | which process belongs to which client |

mod activity;
mod answers;
mod client;
mod connections;
mod family;
mod greet;
mod hold;
mod holder;
mod keep;
mod listener;
mod overhead;
mod reclaim;
mod remember;
mod server;
mod show;
mod sight;
mod source;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

pub use listener::{ListenError, Listener};
pub use server::Server;

use crate::broker::PATIENCE;
use crate::{Policy, Queue};

/// How `mgbd` is to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens.
    pub socket: PathBuf,
    /// Who gets what.
    pub policy: Policy,
    /// Who goes first; as [`Policy::serves`] has it.
    pub queue: Queue,
    /// How long the first in the queue may be passed by others.
    pub patience: Duration,
    /// Ends when there was no client for so long.
    pub idle_exit: Option<Duration>,
    /// Has an MPS control daemon of its own.
    pub mps: bool,
    /// The program of `mgbd`, to be run as the holder of what outlives this one (see [`crate::holder`]);
    /// `None`: nothing does, and there is no MPS.
    pub holder: Option<PathBuf>,
    /// MPS's control program.
    pub mps_control: PathBuf,
    /// The file of what programs took before, read and written; it need not be there.
    pub past: PathBuf,
}

impl Config {
    /// The usual way to run at a socket.
    pub fn new(socket: PathBuf) -> Config {
        let mut past = socket.as_os_str().to_owned();
        past.push(".past");
        Config {
            socket,
            policy: Policy::Mgb,
            queue: Queue::Largest,
            patience: PATIENCE,
            idle_exit: None,
            mps: true,
            holder: None,
            mps_control: crate::holder::MPS_CONTROL.into(),
            past: past.into(),
        }
    }
}

/// Why `mgbd` ended otherwise than it should.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// It could not listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A system call failed.
    #[error("failed to {0}: {1}")]
    System(&'static str, rustix::io::Errno),
    /// The node view could not be made.
    #[error("failed to make the node view: {0}; is /dev/shm there and writable?")]
    View(String),
}

/// Runs until `stop` becomes readable, or nobody needed it for long enough.
pub fn run(config: Config, node: Box<dyn crate::node::Node>, stop: OwnedFd) -> Result<(), DaemonError> {
    let listener = Listener::open(&config.socket)?;
    Server::new(config, node, listener, stop)?.run()
}
