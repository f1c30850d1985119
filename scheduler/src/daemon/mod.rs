//! `mgbd`: one thread, one epoll loop, over the broker.
//!
//! | module     | job |
//! |------------|-----|
//! | `clock`    | the time, and how long the loop has computed |
//! | `config`, `error` | how it is to run, and why it ends |
//! | `source`, `poll` | what the loop waits for |
//! | `limits`   | how much is done for whom |
//! | `threads`  | threads for what may hang |
//! | `deferred_close` | closes what clients sent, which may take its time |
//! | `service`  | what systemd is told |
//! | `history_file` | the file of what programs took |
//! | `usage` | what programs take, by day and user |
//! | `access_list`, `whole_file` | files that one more user may read, and such as are there whole or not at all |
//! | `accept`   | the socket, the handshake, and whose a connection is |
//! | `client`   | a client's channel, read as untrusted, and files that outlive its process |
//! | `process`  | which process belongs to which client, and how it ended |
//! | `lookups`  | what is looked up beside the loop, since it may hang |
//! | `accounts`, `quota_file` | what holds for the users of clients |
//! | `monitor`  | what the GPUs and the processes on them do |
//! | `restart`  | what outlives this `mgbd`: the holder, and the journal |
//! | `view`     | the node view, of each user |
//! | `server`   | the loop: what happened, and what follows from it |

// The loop waits for nothing but epoll: what may hang has threads of its own (`lookups`, `deferred_close`, the
// node's). What is allowed here waits for the kernel alone, or for what is mgbd's own.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod accept;
mod access_list;
mod accounts;
mod client;
mod clock;
mod config;
mod deferred_close;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
#[allow(clippy::disallowed_methods, reason = "a thread, and as it starts and ends")]
mod history_file;
mod limits;
#[allow(
    clippy::disallowed_methods,
    reason = "what it has looked up is beside the loop"
)]
mod lookups;
mod monitor;
mod paces;
mod poll;
mod process;
mod quota_file;
mod restart;
mod server;
mod service;
mod source;
mod threads;
#[allow(clippy::disallowed_methods, reason = "a thread, and as it starts and ends")]
mod usage;
mod view;
#[allow(
    clippy::disallowed_methods,
    reason = "for threads, and as mgbd starts and ends"
)]
mod whole_file;

use std::os::fd::OwnedFd;

pub use accept::listener::{ListenError, Listener};
pub use config::{
    ChangedSettings, Config, LATENCY_RESERVE, LiveSettings, OverheadLimit, RereadSettings, SUBORDINATES,
};
pub use error::DaemonError;
pub use server::Server;

/// Runs until `stop` becomes readable, or `mgbd` has been idle for long enough.
pub fn run(config: Config, node: Box<dyn crate::node::NodeDriver>, stop: OwnedFd) -> Result<(), DaemonError> {
    if accept::identity::own().is_none() && !config.users.are_several() {
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
