//! Where room gathers for tasks that have waited for long and fit nowhere: on one GPU, which is kept from
//! newcomers meanwhile ([`crate::policies`]), and for a bounded time.
//!
//! - It is the GPU where, by what tasks there took before, the room is there first.
//! - A user has one such GPU at a time, and all users together a quarter of the node's, at least one. The
//!   next request's turn comes when the one before it is served or has given up.
//! - Where nothing leaves for [`GATHER_TIMEOUT_FACTOR`] times the patience (or twice the time that what is
//!   there is known to need, if that is more), it is given up: others may begin there again, and room gathers
//!   on another GPU. The user has nothing gather there for as long again, twice as long with each time in a
//!   row.
//! - A static task that has waited for [`NEED_TIMEOUT_FACTOR`] times the patience when it gives a GPU up is
//!   refused: its need may be too high, and its program asks for what it really allocates.
//!
//! A task that waits to grow keeps newcomers off its GPU in the same way
//! ([`crate::broker::reserve::Gathers::is_open`]): where nothing leaves for [`HOLDER_PATIENCE`] times the patience,
//! they may begin there for as long again, and so on.

use std::collections::BTreeSet;
use std::time::Duration;

use mgb_interface::Queue;
use mgb_probe::wire::Reply;

use super::Broker;
use crate::broker::reserve::{Gather, Progress};
use crate::broker::round::Round;
use crate::gpu_set::GpuSet;
use crate::policies::{HOLDER_PATIENCE, Waiter};

/// After how many times the patience a GPU where nothing leaves is given up. More than [`HOLDER_PATIENCE`]:
/// until then tasks of processes that are there already pass.
pub(in crate::broker) const GATHER_TIMEOUT_FACTOR: u32 = 8;
/// After how many times the patience a static task's need counts as too high, where nothing leaves.
const NEED_TIMEOUT_FACTOR: u32 = 32;
/// The longest time that a GPU is kept although nothing leaves, whatever its tasks are known to take.
const MAX_GATHER_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Of so many GPUs one may be kept.
const GPUS_PER_GATHER: usize = 4;
/// Less than this part of what is asked for does not count as leaving: else bytes could keep a GPU closed.
const LEAST_PART: u64 = 32;

impl Broker {
    /// Decides where room gathers. Called in whole rounds, before tasks begin.
    pub(super) fn gather(&mut self, round: &Round<'_>) {
        if self.books.ledger.blind() || self.books.rules.queue == Queue::InOrder {
            return;
        }
        self.watch_growths(round);
        self.expect_nothing_beside_growth(round);
        self.end_gathers(round);
        self.begin_gathers(round);
    }

    fn gather_timeout(&self) -> Duration {
        self.books.rules.patience.saturating_mul(GATHER_TIMEOUT_FACTOR)
    }

    /// Ends what was served or does not wait any more, and gives up where nothing leaves.
    fn end_gathers(&mut self, round: &Round<'_>) {
        self.reserve.gathers.forget_old(round.now);
        for (gpu, gather) in self.reserve.gathers.all() {
            let at = self.queue.pending.position(gather.key);
            let waits = at.filter(|&at| {
                let waiter = &self.queue.pending.waiters()[at];
                waiter.gathers == Some(gpu) && waiter.gpus.contains(gpu)
            });
            match waits {
                Some(at) => self.look_at_gather(at, gpu, gather, round),
                None => self.end_gather(at, gpu, gather),
            }
        }
    }

    /// Room does not gather on the GPU for the task any more: it was served, waits no more, or may not go there.
    fn end_gather(&mut self, at: Option<usize>, gpu: usize, gather: Gather) {
        self.reserve.gathers.end(gpu);
        if let Some(at) = at {
            self.queue.pending.gather_on(at, None);
        }
        if self.books.ledger.task(gather.key).is_some() {
            self.reserve.gathers.forgive(gather.uid, gpu);
        }
    }

    /// Notes whether more room is there for the request at this position, and gives up where there is not for long.
    fn look_at_gather(&mut self, at: usize, gpu: usize, gather: Gather, round: &Round<'_>) {
        let waiter = self.queue.pending.waiters()[at];
        let there = round.there(&self.books, &waiter, gpu);
        let least = if waiter.alone {
            1
        } else {
            (waiter.bytes / LEAST_PART).max(1)
        };
        if there >= gather.progress.most.saturating_add(least) {
            let progress = self.progress(&waiter, gpu, round);
            let gather = Gather { progress, ..gather };
            self.reserve.gathers.begin(gpu, gather);
        } else if round.now >= gather.progress.until {
            tracing::info!(
                client = gather.key.client,
                task = gather.key.task,
                gpu,
                "nothing leaves the GPU: no more room gathers for the task there"
            );
            self.reserve.gathers.end(gpu);
            self.queue.pending.gather_on(at, None);
            let first = self.gather_timeout();
            self.reserve.gathers.give_up(gather.uid, gpu, first, round.now);
            self.give_up_need(at, round.now);
        }
    }

    /// A static task's need is advice, and may be too high: where it has waited for very long and nothing
    /// leaves, it is refused, and its program asks for what it really allocates.
    fn give_up_need(&mut self, at: usize, now: Duration) {
        let waiting = self.queue.pending.beginner(at);
        let timeout = self.books.rules.patience.saturating_mul(NEED_TIMEOUT_FACTOR);
        if waiting.request.site == 0 || waiting.waits(now) < timeout {
            return;
        }
        let (client, cell) = (waiting.client, waiting.cell);
        tracing::info!(
            client,
            "nothing leaves for its static task: it is to ask for what it allocates"
        );
        self.history.count_refused();
        self.queue.refuse_later(client, cell, Reply::Deadlock);
    }

    /// Has room gather for the first requests that have waited for long and fit nowhere, in the order in
    /// which users are served.
    fn begin_gathers(&mut self, round: &Round<'_>) {
        let most = (self.books.ledger.gpus().len() / GPUS_PER_GATHER).max(1);
        let Some(aged) = round.now.checked_sub(self.books.rules.patience) else {
            return;
        };
        let is_aged = |waiter: &Waiter| waiter.since <= aged;
        let waiters = self.queue.pending.waiters();
        if self.reserve.gathers.count() >= most || !waiters.first().is_some_and(is_aged) {
            return;
        }
        let rooms = self.books.ledger.rooms_to_begin(round.covered());
        let mut done: BTreeSet<u32> = self.reserve.gathers.users();
        let order = self.accounts.fair_order(&self.books, waiters, round.now);
        let all = 0..waiters.len();
        for at in order.map_or_else(|| all.collect(), |order| order.positions) {
            if self.reserve.gathers.count() >= most {
                return;
            }
            let waiter = self.queue.pending.waiters()[at];
            let uid = self.books.clients.user(waiter.client);
            let fits = || !waiter.alone && self.books.can_begin(&waiter, &rooms);
            if !is_aged(&waiter) || done.contains(&uid) || fits() {
                continue;
            }
            if self.begin_gather(at, uid, round) {
                done.insert(uid);
            }
        }
    }

    /// Has room gather for a request of the user on the best GPU, if there is one.
    fn begin_gather(&mut self, at: usize, uid: u32, round: &Round<'_>) -> bool {
        let waiter = self.queue.pending.waiters()[at];
        let gathers = &self.reserve.gathers;
        let among = waiter.gpus & !gathers.gpus() & !gathers.paused(uid, round.now);
        let Some(gpu) = self.first_to_have_room(&waiter, uid, among, round) else {
            return false;
        };
        let key = self.queue.pending.beginner(at).key();
        let progress = self.progress(&waiter, gpu, round);
        tracing::info!(
            client = key.client,
            task = key.task,
            gpu,
            "room gathers for the task"
        );
        let gather = Gather { key, uid, progress };
        self.reserve.gathers.begin(gpu, gather);
        self.queue.pending.gather_on(at, Some(gpu));
        true
    }

    fn progress(&self, waiter: &Waiter, gpu: usize, round: &Round<'_>) -> Progress {
        let known = round
            .wait_on(&self.books, &self.history, waiter, gpu)
            .known
            .unwrap_or_default();
        let wait = known.saturating_mul(2).min(MAX_GATHER_TIMEOUT);
        Progress {
            most: round.there(&self.books, waiter, gpu),
            until: round.now + wait.max(self.gather_timeout()),
        }
    }

    /// The one of these GPUs where the task needs to wait least, of those where it was in vain least often.
    fn first_to_have_room(
        &self,
        waiter: &Waiter,
        uid: u32,
        among: GpuSet,
        round: &Round<'_>,
    ) -> Option<usize> {
        let turn = |gpu: usize| {
            let in_vain = self.reserve.gathers.last_pause(uid, gpu);
            let wait = round.wait_on(&self.books, &self.history, waiter, gpu).length;
            let lack = u64::MAX - round.there(&self.books, waiter, gpu);
            (in_vain, wait, lack, gpu)
        };
        let best = self.books.among(among).map(turn).min();
        best.map(|(.., gpu)| gpu)
    }

    /// Where tasks wait to grow, requests for no memory that have waited for long begin without what is
    /// expected of them.
    fn expect_nothing_beside_growth(&mut self, round: &Round<'_>) {
        let pending = &mut self.queue.pending;
        if pending.grows().is_empty() || !pending.expects() {
            return;
        }
        for at in 0..pending.waiters().len() {
            let waiting = pending.beginner(at);
            if waiting.waits(round.now) < self.books.rules.patience {
                return;
            }
            if waiting.bytes == 0 && waiting.expects() {
                pending.expect(at, 0);
            }
        }
    }

    /// Opens GPUs to newcomers where nothing leaves for tasks that wait to grow, and closes them again.
    fn watch_growths(&mut self, round: &Round<'_>) {
        let growing = self.queue.pending.growing_on();
        let patience = self.books.rules.patience;
        let timeout = patience.saturating_mul(HOLDER_PATIENCE);
        let gathers = &mut self.reserve.gathers;
        gathers.forget_growths(growing, patience, round.now);
        for gpu in self.books.among(growing) {
            let ledger = &self.books.ledger;
            let there = ledger.grantable(round.covered(), gpu);
            let least = (ledger.gpus()[gpu].usable_bytes / LEAST_PART).max(1);
            let is_stalled = round.stalled().contains(gpu);
            gathers.watch_growths(gpu, there, least, is_stalled, timeout, round.now);
        }
    }
}
