//! Requests that wait for room.

use std::time::Duration;

use mgb_probe::wire::{Op, Request};

use crate::broker::history::TaskKind;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;

/// A request that waits.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Waiting {
    pub(in crate::broker) client: ClientId,
    pub(in crate::broker) cell: usize,
    pub(in crate::broker) request: Request,
    pub(in crate::broker) since: Duration,
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
}

impl Waiting {
    pub(in crate::broker) fn key(&self) -> TaskKey {
        TaskKey {
            client: self.client,
            task: self.request.task,
        }
    }

    pub(in crate::broker) fn grows(&self) -> bool {
        self.request.op == Op::Grow
    }

    /// What is expected of the process beside its tasks.
    pub(in crate::broker) fn expected_overhead(&self) -> u64 {
        self.overhead.min(self.expected_bytes - self.bytes)
    }

    /// Whether it is to have more room than it asks for.
    pub(in crate::broker) fn expects(&self) -> bool {
        self.expected_bytes > self.bytes
    }

    pub(in crate::broker) fn waits(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
}
