//! The requests that wait: those that are scheduled, those that are suspended, and answers that were decided on outside
//! of a round.

mod pending;
mod queued;
mod suspended;
mod touches;
mod waiting;

use std::time::Duration;

use mgb_probe::wire::Reply;

use super::answer::{Answer, bad};
use crate::client::ClientId;
use crate::ledger::TaskKey;

pub(super) use pending::Pending;
pub(super) use queued::{QueuedRequest, asked_later};
pub(super) use suspended::{SuspendReason, SuspendedRequest, SuspendedRequests};
pub(super) use touches::Touches;
pub(super) use waiting::Waiting;

/// A task that waits to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitingTask {
    pub(super) client: ClientId,
    pub(super) cell: usize,
    pub(super) since: Duration,
}

/// All requests that wait.
#[derive(Debug, Default)]
pub(super) struct RequestQueue {
    pub(super) pending: Pending,
    pub(super) suspended: SuspendedRequests,
    pub(super) touches: Touches,
    /// Answers to requests that left the queue without a grant; the next round delivers them.
    overdue: Vec<Answer>,
}

impl RequestQueue {
    /// Whether a request of the task waits.
    pub(super) fn has(&self, key: TaskKey) -> bool {
        self.pending.has(key) || self.suspended.has(key)
    }

    /// Whether there are answers for the next round to deliver.
    pub(super) fn is_overdue(&self) -> bool {
        !self.overdue.is_empty()
    }

    /// The answers for this round to deliver.
    pub(super) fn take_overdue(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.overdue)
    }

    /// The next round delivers this answer.
    pub(super) fn answer_later(&mut self, client: ClientId, cell: usize, reply: Reply) {
        self.overdue.push(Answer { client, cell, reply });
    }

    /// A request leaves, and the next round delivers this answer to it.
    pub(super) fn refuse_later(&mut self, client: ClientId, cell: usize, reply: Reply) {
        self.remove(client, cell);
        self.answer_later(client, cell, reply);
    }

    /// The request of the client's cell leaves.
    pub(super) fn remove(&mut self, client: ClientId, cell: usize) {
        self.pending.remove(client, cell);
        self.suspended.remove(client, cell);
    }

    /// The client waits for nothing any more.
    pub(super) fn hang_up(&mut self, client: ClientId) {
        self.pending.retain(|waiting| waiting.client != client);
        self.suspended.hang_up(client);
        self.overdue.retain(|answer| answer.client != client);
    }

    /// A task has left the ledger. A growth of it that waits is answered: one thread can ask for more while another
    /// ends the task.
    pub(super) fn task_is_over(&mut self, key: TaskKey) {
        self.touches.forget(key);
        let pending = self.pending.take_growths_of(key).into_iter();
        let pending = pending.map(|waiting| waiting.cell);
        let cells: Vec<_> = pending.chain(self.suspended.take_growths_of(key)).collect();
        for cell in cells {
            self.answer_later(key.client, cell, bad("the task ended while it waited to grow"));
        }
    }

    /// The client does not want what the task waits for any more. Returns the cells of the requests that leave.
    pub(super) fn withdraw(&mut self, key: TaskKey) -> Vec<usize> {
        let waiting = self.pending.of(key.client).filter(|waiting| waiting.key() == key);
        let mut cells: Vec<usize> = waiting.map(|waiting| waiting.cell).collect();
        for &cell in &cells {
            self.pending.remove(key.client, cell);
        }
        cells.extend(self.suspended.take_of(key));
        cells
    }

    /// The tasks that wait to begin, scheduled or suspended.
    pub(super) fn waiting_tasks(&self) -> impl Iterator<Item = WaitingTask> {
        let pending = self.pending.iter().filter(|waiting| !waiting.grows());
        let pending = pending.map(|waiting| (waiting.client, waiting.cell, waiting.since));
        let suspended = self.suspended.iter().filter(|suspended| suspended.begins());
        let suspended = suspended.map(|suspended| (suspended.client, suspended.cell, suspended.since));
        let all = pending.chain(suspended);
        all.map(|(client, cell, since)| WaitingTask { client, cell, since })
    }

    /// The tasks of a client for which requests wait, and the threads that asked.
    pub(super) fn asked_by(&self, client: ClientId) -> Vec<(TaskKey, u32)> {
        let pending = self.pending.of(client);
        let pending = pending.map(|waiting| (waiting.key(), waiting.request.thread));
        let suspended = self.suspended.of(client);
        let suspended = suspended.map(|suspended| (suspended.key(), suspended.request.thread));
        pending.chain(suspended).collect()
    }
}

#[cfg(test)]
mod tests;
