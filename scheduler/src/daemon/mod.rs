//! `mgbd`: one thread, one epoll loop, over the broker.
//!
//! | module     | job |
//! |------------|-----|
//! | `server`   | the loop: what happened, and what follows from it |
//! | `connections` | clients come, ask and go |
//! | `listener` | the socket: its folder, its lock, one `mgbd` at a time |
//! | `greet`    | the handshake, and what it refuses |
//! | `descriptors` | how many are open, and what is said of that |
//! | `excess`   | how many more than clients account for, and when that is news |
//! | `audit`    | a line of the log for each order of a person |
//! | `arrivals` | who has said hello and waits for what is looked up |
//! | `admission` | how they come in |
//! | `lookups`  | what is looked up beside the loop, since it may hang |
//! | `pool`, `apart` | the threads for what may hang |
//! | `deferred_close` | closes what clients sent, which may take its time |
//! | `entrance` | who comes in |
//! | `limits`   | how much is done for whom |
//! | `pause`    | what is not heard for a moment |
//! | `client`   | one client's channel, read as untrusted |
//! | `activity` | how busy clients have been lately |
//! | `memory_monitor`    | what NVML shows against what the clients say |
//! | `marks`    | what belongs to a whole-process task outside its process tree |
//! | `overhead` | what clients' processes have beside their tasks |
//! | `beyond`   | processes that have more than they were granted |
//! | `late`     | and those that have it for longer than they may |
//! | `ending`   | how such a process is ended |
//! | `reclaim`  | rooms of the dead, from the death to NVML's free |
//! | `files`    | files that clients have kept |
//! | `client_fds` | files of the driver's that outlive their process |
//! | `history_file` | the file of what programs took |
//! | `node_view` | the node view |
//! | `fit`      | what of it fits |
//! | `health`, `failing` | has GPUs drained that fail |
//! | `foreign`  | how busy programs outside MGB keep the GPUs |
//! | `sleep`    | how long the loop sleeps |
//! | `spawner`  | starts processes, beside the loop |
//! | `rounds`   | when the broker goes through all that waits |
//! | `quota_file` | the file of quotas |
//! | `quotas`   | what holds for the users of clients |
//! | `setup` | what the loop is set up with |
//! | `service`  | what systemd is told |
//! | `user_views` | the node view of each user |
//! | `hold`     | what the loop has the holder hold |
//! | `backlog`  | what a holder that does not read is told later |
//! | `holder`   | the process that keeps what outlives `mgbd`, MPS among it |
//! | `predecessor` | what an `mgbd` that ended without a word left |
//! | `recover` | going on with that |
//! | `book`     | the journal's file |
//! | `journal_write` | what is written there, and when |
//! | `family`   | which process belongs to which client |
//! | `connection` | who has connected and is not greeted yet |
//! | `identity` | whose a client is, and who administers |
//! | `subordinate` | whose the users of user namespaces are |

// The loop waits for nothing but epoll: what may hang has threads of its own (`lookups`, `deferred_close`, the
// node's). What is allowed here waits for the kernel alone, or for what is mgbd's own.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod activity;
mod admission;
mod answers;
mod apart;
mod arrivals;
#[allow(
    clippy::disallowed_methods,
    reason = "the kernel's own word on a process's name"
)]
mod audit;
mod backlog;
mod beyond;
mod book;
mod client;
mod client_fds;
mod config;
mod connection;
mod connections;
mod deferred_close;
mod descriptors;
mod ending;
mod entrance;
mod error;
mod excess;
mod failing;
#[allow(
    clippy::disallowed_methods,
    reason = "the kernel's own words on processes; `program_of` is for lookups"
)]
mod family;
mod files;
mod fit;
mod foreign;
#[cfg(fuzzing)]
pub mod fuzzing;
mod greet;
#[allow(clippy::disallowed_methods, reason = "a thread that asks the driver")]
mod health;
#[allow(clippy::disallowed_methods, reason = "a thread, and as it starts and ends")]
mod history_file;
mod hold;
#[allow(
    clippy::disallowed_methods,
    reason = "its own folder and program, as it starts a holder"
)]
mod holder;
#[allow(clippy::disallowed_methods, reason = "the kernel's own words on memory")]
mod host_memory;
#[allow(clippy::disallowed_methods, reason = "the kernel's own words on processes")]
mod identity;
mod journal_write;
mod late;
mod late_processes;
mod limits;
#[allow(clippy::disallowed_methods, reason = "its own folder, as it starts and ends")]
mod listener;
#[allow(
    clippy::disallowed_methods,
    reason = "what it has looked up is beside the loop"
)]
mod lookups;
#[allow(clippy::disallowed_methods, reason = "in threads of its own")]
mod marks;
mod memory_monitor;
#[allow(clippy::disallowed_methods, reason = "shared memory that is its own")]
mod node_view;
mod overhead;
mod pause;
mod pool;
mod predecessor;
mod quota_file;
mod quotas;
mod reclaim;
mod recover;
mod rounds;
mod server;
mod service;
mod setup;
mod signal;
mod sleep;
mod source;
#[allow(
    clippy::disallowed_methods,
    reason = "a thread, whose processes share no file of a client's"
)]
mod spawner;
#[allow(
    clippy::disallowed_methods,
    reason = "the administrator's file, as it is and as it changes"
)]
mod subordinate;
mod user_views;

use std::os::fd::OwnedFd;

pub use config::{Config, OverheadLimit};
pub use error::DaemonError;
pub use listener::{ListenError, Listener};
pub use server::Server;
pub use service::OWN as OF_SYSTEMD;
pub use subordinate::FILE as SUBORDINATES;

/// Runs until `stop` becomes readable, or `mgbd` has been idle for long enough.
pub fn run(config: Config, node: Box<dyn crate::node::Node>, stop: OwnedFd) -> Result<(), DaemonError> {
    if identity::own().is_none() && !config.users.are_several() {
        return Err(DaemonError::NoUser);
    }
    if !mgb_probe::trust::has_all_users() {
        tracing::warn!(
            uid = mgb_probe::trust::overflow_uid(),
            "mgbd is in a user namespace that leaves users out: those all have this number, administer nothing, \
             and have accounts by their control groups"
        );
    }
    crate::channel_memory::guard()
        .map_err(|error| DaemonError::System("prepare for missing memory of channels", error))?;
    let listener = Listener::open(&config.socket, &config.users, config.activated.as_deref())?;
    Server::new(config, node, listener, stop)?.run()
}
