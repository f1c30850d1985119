//! One round over the queue: what the driver and the clients show, what is left of it, and what was found out and
//! answered so far.

mod gpu_states;
mod holders;
mod lacks;
mod movers;
mod waits;

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::wire::Reply;

use super::answer::Answer;
use super::books::Books;
use super::orders::Orders;
use super::queue::{RequestQueue, Waiting};
use super::snapshot::Snapshot;
use crate::client::ClientId;
use crate::deadlock::{GpuProcess, GpuRoom};
use crate::gpu_set::GpuSet;
use crate::ledger::Ledger;
use crate::policies::Waiter;
use crate::sms::TaskLaunch;

pub(super) use movers::cost_of_move;

/// A round over the queue: what it sees, and what it has answered so far.
#[derive(Debug)]
pub(super) struct Round<'a> {
    /// The time of the round.
    pub(super) now: Duration,
    /// What the driver and the clients show, but for what the round has of it itself.
    pub(super) snapshot: &'a Snapshot,
    /// By GPU: bytes that the driver shows free beyond what was granted already.
    covered: Vec<Option<u64>>,
    /// Bytes that clients have mapped beyond their reservations.
    ahead: BTreeMap<(ClientId, usize), u64>,
    /// Every process on every GPU, where any of them waits.
    holders: Vec<GpuProcess>,
    /// GPUs on which no process that holds memory can go on by itself.
    stalled: GpuSet,
    answers: Vec<Answer>,
}

/// What a round takes out of a snapshot and leaves to the next.
#[derive(Debug, Default)]
pub(super) struct Cover {
    covered: Vec<Option<u64>>,
    ahead: BTreeMap<(ClientId, usize), u64>,
}

impl Cover {
    /// Takes what a round changes out of the snapshot.
    pub(super) fn take(snapshot: &mut Snapshot) -> Cover {
        Cover {
            covered: std::mem::take(&mut snapshot.covered),
            ahead: std::mem::take(&mut snapshot.ahead),
        }
    }

    /// A copy of what the snapshot has.
    pub(super) fn copy(snapshot: &Snapshot) -> Cover {
        Cover {
            covered: snapshot.covered.clone(),
            ahead: BTreeMap::new(),
        }
    }

    /// Puts what a round has left back into the snapshot.
    pub(super) fn put(self, snapshot: &mut Snapshot) {
        snapshot.covered = self.covered;
        snapshot.ahead = self.ahead;
    }
}

impl<'a> Round<'a> {
    /// Begins a round over what the snapshot shows.
    pub(super) fn new(snapshot: &'a Snapshot, cover: Cover, now: Duration) -> Round<'a> {
        Round {
            now,
            snapshot,
            covered: cover.covered,
            ahead: cover.ahead,
            holders: Vec::new(),
            stalled: GpuSet::EMPTY,
            answers: Vec::new(),
        }
    }

    /// Ends the round: what it leaves to the next, and its answers.
    pub(super) fn finish(self) -> (Cover, Vec<Answer>) {
        let cover = Cover {
            covered: self.covered,
            ahead: self.ahead,
        };
        (cover, self.answers)
    }

    /// GPUs of which the snapshot says nothing are covered as far as the ledger knows.
    pub(super) fn cover_all(&mut self, ledger: &Ledger) {
        self.covered.resize(ledger.gpus().len(), None);
    }

    /// Whether there is a latency program.
    pub(super) fn has_latency(&self) -> bool {
        !self.snapshot.latency.is_empty()
    }

    /// Whether the client is a latency program.
    pub(super) fn is_latency(&self, client: ClientId) -> bool {
        self.snapshot.latency.contains(&client)
    }

    /// Whether the snapshot says something of each GPU.
    pub(super) fn covers_all(&self, ledger: &Ledger) -> bool {
        self.covered.len() == ledger.gpus().len()
    }

    /// By GPU: bytes that the driver shows free beyond what was granted already.
    pub(super) fn covered(&self) -> &[Option<u64>] {
        &self.covered
    }

    /// Every process on every GPU, where any of them waits.
    pub(super) fn holders(&self) -> &[GpuProcess] {
        &self.holders
    }

    /// GPUs on which no process that holds memory can go on by itself.
    pub(super) fn stalled(&self) -> GpuSet {
        self.stalled
    }

    /// Finds out which processes wait, and which GPUs are stalled.
    pub(super) fn survey(&mut self, books: &Books, queue: &RequestQueue, orders: &Orders) {
        (self.holders, self.stalled) = self.holders_that_wait(books, queue, orders);
    }

    /// These answers are to be carried to clients.
    pub(super) fn add_answers(&mut self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.extend(answers);
    }

    /// Answers a waiting request, which leaves the queue.
    pub(super) fn answer(&mut self, queue: &mut RequestQueue, waiting: &Waiting, reply: Reply) {
        queue.pending.remove(waiting.client, waiting.cell);
        self.answers.push(Answer {
            client: waiting.client,
            cell: waiting.cell,
            reply,
        });
    }

    /// Takes bytes that are granted off what the driver shows free on the GPU.
    pub(super) fn spend(&mut self, gpu: usize, bytes: u64) {
        self.covered[gpu] = self.covered[gpu].map(|left| left.saturating_sub(bytes));
    }

    /// A growth was granted: the driver has yet to give what is missing of it, and the client has less beyond its
    /// reservation now.
    pub(super) fn spend_growth(&mut self, waiting: &Waiting, gpu: usize) {
        self.spend(gpu, self.missing(waiting, gpu));
        self.ahead
            .entry((waiting.client, gpu))
            .and_modify(|ahead| *ahead = ahead.saturating_sub(waiting.bytes));
    }

    /// Whether a growth can be granted: the driver shows all of it free that the process has not mapped
    /// already, and what its headroom does not hold is left in the ledger.
    pub(super) fn has_room_to_grow(&self, ledger: &Ledger, waiting: &Waiting, gpu: usize) -> bool {
        let beyond = ledger.beyond_headroom(waiting.key(), waiting.bytes);
        let is_shown = self.covered[gpu].is_none_or(|shown| self.missing(waiting, gpu) <= shown);
        // Room on another GPU waits for all that the task had when it was ordered there.
        if ledger.arrival(waiting.key()).is_some() {
            return false;
        }
        ledger.blind() || is_shown && beyond <= ledger.room(gpu)
    }

    /// Bytes of a growth that the driver has yet to give.
    fn missing(&self, waiting: &Waiting, gpu: usize) -> u64 {
        let ahead = self.ahead.get(&(waiting.client, gpu)).copied().unwrap_or(0);
        waiting.bytes.saturating_sub(ahead)
    }

    /// The rooms of all GPUs, as far as the driver shows them.
    pub(super) fn rooms(&self, books: &Books) -> Vec<GpuRoom> {
        rooms(books, &self.covered)
    }
}

fn rooms(books: &Books, covered: &[Option<u64>]) -> Vec<GpuRoom> {
    let ledger = &books.ledger;
    let shown = |gpu: usize| covered.get(gpu).copied().flatten().unwrap_or(u64::MAX);
    let room = |gpu: usize| GpuRoom {
        left: ledger.room(gpu).min(shown(gpu)),
        // What libraries of those on the GPU have stays as long as they do.
        hidden: (ledger.room(gpu).saturating_sub(shown(gpu))).saturating_sub(ledger.taken(gpu)),
        context: ledger.gpus()[gpu].context_bytes,
        reclaiming: ledger.reclaiming().iter().any(|entry| entry.gpu == gpu),
        full: ledger.processes(gpu) >= books.rules.max_processes,
    };
    (0..ledger.gpus().len()).map(room).collect()
}

/// A request to begin, as policies see it.
pub(super) fn waiter(books: &Books, waiting: &Waiting, expected: Duration) -> Waiter {
    Waiter {
        client: waiting.client,
        gpus: waiting.gpus,
        contexts: books.ledger.context_gpus(waiting.client),
        alone: books.wants_alone(&waiting.request),
        bytes: waiting.expected_bytes,
        launch: TaskLaunch::of(&waiting.request.need),
        since: waiting.since,
        expected,
        deadline: waiting.deadline(),
        priority: waiting.request.need.priority,
        gathers: None,
    }
}

#[cfg(test)]
mod tests;
