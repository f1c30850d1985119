//! The scheduler: the ledger of who holds what, the policies that decide who
//! gets what, and `mgbd`, the daemon that does it for a node.
//!
//! [`Ledger`], [`policies`], [`sms`], [`deadlock`], [`eviction`] and [`Broker`] know no clock, no
//! driver and no socket, so that tests and the simulator run the same code as
//! [`daemon`].

#![cfg_attr(
    not(test),
    warn(
        clippy::print_stderr,
        clippy::print_stdout,
        reason = "both panic where nothing can be written"
    )
)]

pub mod balance;
pub mod broker;
mod channel_memory;
pub mod client;
pub mod daemon;
pub mod deadlock;
pub mod eviction;
pub mod fair;
pub mod gpu_set;
pub mod help;
pub mod holder;
pub mod journal;
mod lacks;
pub mod ledger;
pub mod log;
pub mod node;
mod note;
pub mod pace;
pub mod policies;
pub mod quota;
pub mod seccomp;
pub mod settings;
pub mod shortfall;
pub mod sms;
pub mod time_left;
pub mod users;

pub use broker::Broker;
pub use ledger::Ledger;
pub use users::Users;
