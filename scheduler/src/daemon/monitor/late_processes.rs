//! What mgbd knows of processes that have had their memory for longer than they may.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::client::ClientId;
use crate::daemon::limits::{Limiter, USER_LOG_LINES};
use crate::daemon::monitor::ending::Done;

/// What is known of late processes.
#[derive(Debug)]
pub(crate) struct LateProcesses {
    /// When tasks are looked at next.
    pub(crate) due: Duration,
    /// What was done about the processes that are late.
    pub(crate) done: BTreeMap<ClientId, Done>,
    /// Processes whose tasks are old enough that they keep no leases.
    pub(crate) without_leases: BTreeSet<ClientId>,
    /// Lines of the log, by user.
    pub(crate) lines: Limiter<u32>,
}

impl LateProcesses {
    /// No process is late.
    pub(crate) fn new() -> LateProcesses {
        LateProcesses {
            due: Duration::ZERO,
            done: BTreeMap::new(),
            without_leases: BTreeSet::new(),
            lines: Limiter::new(USER_LOG_LINES),
        }
    }
}
