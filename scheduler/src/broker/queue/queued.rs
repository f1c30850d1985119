//! What all requests in the queue have in common.

use std::time::Duration;

use mgb_probe::wire::{Op, Request};

use crate::client::ClientId;
use crate::ledger::TaskKey;

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

    pub(in crate::broker) fn waits(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
}
