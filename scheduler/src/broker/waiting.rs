//! Requests that wait for room.

use std::time::Duration;

use mgb_probe::wire::{Op, Request, WHOLE_PROCESS};

use super::past::Which;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;

/// A request that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) client: ClientId,
    pub(super) cell: usize,
    pub(super) request: Request,
    pub(super) since: Duration,
    /// Bytes to reserve, all of a new task or more of a growing one.
    pub(super) bytes: u64,
    /// Bytes that are to be there for it: of a new task what it is expected to have at most, never less than
    /// `bytes`.
    pub(super) expected_bytes: u64,
    /// Of those that it does not ask for, so many are for the process's overhead, as far as they are there.
    pub(super) overhead: u64,
    /// GPUs it can go to.
    pub(super) gpus: GpuSet,
    /// The same, with those that are drained.
    pub(super) fit: GpuSet,
    /// What it is remembered by; `None` if the program is unknown, or if it grows.
    pub(super) which: Option<Which>,
}

impl Waiting {
    pub(super) fn key(&self) -> TaskKey {
        TaskKey {
            client: self.client,
            task: self.request.task,
        }
    }

    pub(super) fn grows(&self) -> bool {
        self.request.op == Op::Grow
    }

    /// What is expected of the process beside its tasks.
    pub(super) fn expected_overhead(&self) -> u64 {
        self.overhead.min(self.expected_bytes - self.bytes)
    }

    /// Whether it is to have more room than it asks for.
    pub(super) fn expects(&self) -> bool {
        self.expected_bytes > self.bytes
    }

    pub(super) fn waits(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
}

/// Whether the request is for a process as a whole: a program that was not built with MGB.
pub(super) fn is_whole_process(request: &Request) -> bool {
    request.flags & WHOLE_PROCESS != 0
}
