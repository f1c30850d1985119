//! What `mgb` and `mgbd` know of each other beside the protocol of clients: the policies and orders by name, the
//! holder's messages, where the files of an `mgbd` lie, what programs have taken, and which process is one.

pub mod folders;
pub mod holder;
pub mod kinship;
pub mod mps;
pub mod peer;
mod policy;
mod queue;
pub mod usage;

pub use policy::{OwnOrder, Policy, PolicyError, WaitOrder};
pub use queue::{Queue, QueueError};

/// The settings by which systemd speaks to a service: not for processes that the service starts.
pub const SYSTEMD_VARIABLES: [&str; 5] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
];
