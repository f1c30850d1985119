//! Requests that wait for room.

use std::ops::Deref;
use std::time::Duration;

use super::queued::QueuedRequest;
use crate::broker::history::TaskKind;
use crate::gpu_set::GpuSet;

/// A request that waits.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Waiting {
    pub(in crate::broker) queued: QueuedRequest,
    /// Bytes to reserve, all of a new task or more of a growing one.
    pub(in crate::broker) bytes: u64,
    /// Bytes that are to be there for it: of a new task what it is expected to have at most, never less than
    /// `bytes`.
    pub(in crate::broker) expected_bytes: u64,
    /// Of those that it does not ask for, so many are for the process's overhead, as far as they are there.
    pub(in crate::broker) overhead: u64,
    /// GPUs it can go to.
    pub(in crate::broker) gpus: GpuSet,
    /// The same, with those that are drained.
    pub(in crate::broker) fit: GpuSet,
    /// The kind of task that it is remembered as; `None` if the program is unknown, or if it grows.
    pub(in crate::broker) kind: Option<TaskKind>,
    /// Whether it is known how long tasks of its kind last.
    pub(in crate::broker) is_known: bool,
    /// How long its program takes at least until its deadline is met.
    pub(in crate::broker) at_least: Duration,
}

impl Deref for Waiting {
    type Target = QueuedRequest;

    fn deref(&self) -> &QueuedRequest {
        &self.queued
    }
}

impl Waiting {
    /// What is expected of the process beside its tasks.
    pub(in crate::broker) fn expected_overhead(&self) -> u64 {
        self.overhead.min(self.expected_bytes - self.bytes)
    }

    /// Whether it is to have more room than it asks for.
    pub(in crate::broker) fn expects(&self) -> bool {
        self.expected_bytes > self.bytes
    }
}
