//! What mgbd knows of processes that have had their memory for longer than they may.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ending::Done;
use super::rations::Rations;
use crate::client::ClientId;

/// What is known of late processes.
#[derive(Debug, Default)]
pub(super) struct LateProcesses {
    /// When tasks are looked at next.
    pub(super) due: Duration,
    /// What was done about the processes that are late.
    pub(super) done: BTreeMap<ClientId, Done>,
    /// Processes whose tasks are old enough that they keep no leases.
    pub(super) without_leases: BTreeSet<ClientId>,
    /// Lines of the log.
    pub(super) lines: Rations,
}
