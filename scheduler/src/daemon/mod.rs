//! `mgbd`: one thread, one epoll loop, over the broker.
//!
//! | module     | job |
//! |------------|-----|
//! | `server`   | the loop: what happened, and what follows from it |
//! | `connections` | clients come, ask and go |
//! | `listener` | the socket: its folder, its lock, one `mgbd` at a time |
//! | `greet`    | the handshake, and what it refuses |
//! | `closer`   | closes what clients sent, which may take its time |
//! | `unanswered` | how many requests wait of each user |
//! | `entrance` | who comes in |
//! | `bucket`   | how often something may be done |
//! | `doors`    | how many connections are taken |
//! | `lists`    | how often clients may have files kept |
//! | `pause`, `pauses` | what is not heard for a moment |
//! | `ration`   | how often the log tells of what clients do wrong |
//! | `client`   | one client's channel, read as untrusted |
//! | `activity` | how busy clients have been lately |
//! | `memory_monitor`    | what NVML shows against what the clients say |
//! | `overhead` | what clients' processes have beside their tasks |
//! | `beyond`   | processes that have more than they were granted |
//! | `reclaim`  | rooms of the dead, from the death to NVML's free |
//! | `files`    | files that clients have kept |
//! | `keep`     | files of the driver's that outlive their process |
//! | `remember` | the file of what programs took |
//! | `show`     | the node view |
//! | `sleep`    | how long the loop sleeps |
//! | `rounds`   | when the broker goes through all that waits |
//! | `quota_file` | the file of quotas |
//! | `quotas`   | what holds for the users of clients |
//! | `means`    | what the loop is set up with |
//! | `service`  | what systemd is told |
//! | `boards`   | the node view of each user |
//! | `hold`     | what the loop has the holder hold |
//! | `holder`   | the process that keeps what outlives `mgbd`, MPS among it |
//! | `left`     | what an `mgbd` that ended without a word left |
//! | `take_over` | going on with that |
//! | `book`     | the journal's file |
//! | `take_down` | what is written there, and when |
//! | `family`   | which process belongs to which client |
//! | `comer`    | who has connected and is not greeted yet |
//! | `identity` | whose a client is, and who administers |
//! | `subordinate` | whose the users of user namespaces are |

mod activity;
mod answers;
mod beyond;
mod boards;
mod book;
mod bucket;
mod client;
mod closer;
mod comer;
mod config;
mod connections;
mod doors;
mod entrance;
mod error;
mod family;
mod files;
#[cfg(fuzzing)]
pub mod fuzzing;
mod greet;
mod hold;
mod holder;
mod host_memory;
mod identity;
mod keep;
mod left;
mod listener;
mod lists;
mod means;
mod memory_monitor;
mod overhead;
mod pause;
mod pauses;
mod quota_file;
mod quotas;
mod ration;
mod reclaim;
mod remember;
mod rounds;
mod server;
mod service;
mod show;
mod sleep;
mod source;
mod subordinate;
mod take_down;
mod take_over;
mod unanswered;

use std::os::fd::OwnedFd;

pub use config::{Config, OverheadLimit};
pub use error::DaemonError;
pub use listener::{ListenError, Listener};
pub use server::Server;
pub use subordinate::FILE as SUBORDINATES;

/// Runs until `stop` becomes readable, or `mgbd` has been idle for long enough.
pub fn run(config: Config, node: Box<dyn crate::node::Node>, stop: OwnedFd) -> Result<(), DaemonError> {
    let listener = Listener::open(&config.socket, &config.users, config.activated.as_deref())?;
    Server::new(config, node, listener, stop)?.run()
}
