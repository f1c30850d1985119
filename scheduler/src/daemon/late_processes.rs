//! What mgbd knows of processes that have had their memory for longer than they may.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ending::Done;
use super::limits::{Limiter, USER_LOG_LINES};
use crate::client::ClientId;

/// What is known of late processes.
#[derive(Debug)]
pub(super) struct LateProcesses {
    /// When tasks are looked at next.
    pub(super) due: Duration,
    /// What was done about the processes that are late.
    pub(super) done: BTreeMap<ClientId, Done>,
    /// Processes whose tasks are old enough that they keep no leases.
    pub(super) without_leases: BTreeSet<ClientId>,
    /// Lines of the log, by user.
    pub(super) lines: Limiter<u32>,
}

impl LateProcesses {
    /// No process is late.
    pub(super) fn new() -> LateProcesses {
        LateProcesses {
            due: Duration::ZERO,
            done: BTreeMap::new(),
            without_leases: BTreeSet::new(),
            lines: Limiter::new(USER_LOG_LINES),
        }
    }
}
