//! What all requests in the queue have in common.

use std::time::Duration;

use mgb_probe::wire::{Op, Request};

use crate::client::ClientId;
use crate::ledger::TaskKey;

/// A request as it is to be asked so much later: what it wants by a time, it wants by that time.
pub(in crate::broker) fn asked_later(mut request: Request, by: Duration) -> Request {
    let within = &mut request.need.deadline_ns;
    if *within > 0 {
        let passed = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        // 0 would mean that it has no deadline.
        *within = within.saturating_sub(passed).max(1);
    }
    request
}

/// A request in the queue: who made it, the cell where it is answered, and since when it waits.
#[derive(Clone, Debug)]
pub(in crate::broker) struct QueuedRequest {
    pub(in crate::broker) client: ClientId,
    pub(in crate::broker) cell: usize,
    pub(in crate::broker) request: Request,
    pub(in crate::broker) since: Duration,
}

impl QueuedRequest {
    pub(in crate::broker) fn key(&self) -> TaskKey {
        TaskKey {
            client: self.client,
            task: self.request.task,
        }
    }

    pub(in crate::broker) fn grows(&self) -> bool {
        self.request.op == Op::Grow
    }

    pub(in crate::broker) fn begins(&self) -> bool {
        self.request.op == Op::Begin
    }

    /// When the task's result is wanted, on the broker's clock; `None`: no time was named, or the task grows.
    pub(in crate::broker) fn deadline(&self) -> Option<Duration> {
        let within = Some(self.request.need.deadline_ns).filter(|&within| within > 0 && self.begins());
        within.map(|within| self.since.saturating_add(Duration::from_nanos(within)))
    }

    /// The request as it is to be asked anew, as if it had come then.
    pub(in crate::broker) fn asked_at(&self, then: Duration) -> Request {
        asked_later(self.request, then.saturating_sub(self.since))
    }

    pub(in crate::broker) fn waits(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
}
