//! Expectations: a task that begins is to have the room to which tasks of its kind grew before, and that room
//! is kept for it while it runs ([`crate::ledger::Holding::headroom`]). With a process's first task comes
//! what its program took beside tasks before ([`crate::broker::history`]).
//!
//! They are wishes, and give way to whoever cannot do without. After a round, and only then, since most of
//! waiting requests are served in it:
//!
//! - On a stalled GPU (see [`crate::deadlock`]) nothing is kept for any process, and processes that can only
//!   go to such GPUs begin with what they ask for. So no process swaps or is refused for room that none has
//!   asked for.
//! - Nothing is kept from a growth that has waited for the patience: others wait for what its process holds.
//! - Nothing that is kept for a process keeps it from beginning a task itself.
//! - The same holds for processes that have the order of one job ([`crate::broker::jobs`]), since they may wait for
//!   each other: nothing that is kept for one keeps another out, and once one of them has something, the
//!   others begin with what they ask for.
//! - The first request that only expectations (its own or others') keep from beginning waits for
//!   [`HOLDER_PATIENCE`] times the patience after it has become the first, and no less than tasks last on
//!   average: usually some task ends meanwhile. Then it begins with what it asks for, and what is kept for
//!   others on a GPU where that helps is theirs no more. Where none of those there has had work for
//!   [`IDLE_TIMEOUT`], it waits no longer than that: they may wait for it, as parts of one computation do for each
//!   other. Where there is no task to wait for, since all that
//!   others have there are contexts, it begins at once with all the room there is, or with what is kept for
//!   those.

use std::time::Duration;

use super::Broker;
use crate::broker::queue::Waiting;
use crate::broker::round::Round;
use crate::client::ClientId;
use crate::ledger::TaskKey;
use crate::policies::{HOLDER_PATIENCE, Waiter};

/// How long a request is kept out by what is expected of processes none of which has had work meanwhile.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

impl Broker {
    /// After a round: takes expected bytes from the processes that must give them up, as the module
    /// describes. False: no process gave anything up.
    pub(super) fn give_up_expectations(&mut self, round: &Round<'_>) -> bool {
        let ledger = &self.books.ledger;
        let is_kept = (0..ledger.gpus().len()).any(|gpu| ledger.charges(gpu).kept() > 0);
        if !is_kept && !self.queue.pending.expects() {
            self.reserve.none_is_kept_out();
            return false;
        }
        let mut gives = false;
        if self.queue.pending.of_holders().next().is_some() {
            gives |= self.give_up_on_stalled(round);
            gives |= self.give_up_for_growth(round);
        }
        gives |= self.give_up_for_own(round);
        gives | self.give_up_for_first(round)
    }

    /// True: a process gave something up there.
    fn keep_nothing(&mut self, gpu: usize, only: Option<ClientId>) -> bool {
        let before = self.books.ledger.charges(gpu).kept();
        self.books.ledger.forgo(gpu, only);
        self.books.ledger.charges(gpu).kept() < before
    }

    fn give_up_on_stalled(&mut self, round: &Round<'_>) -> bool {
        let stalled = round.find_stalled(&self.books, &self.queue, &self.orders);
        let mut gives = false;
        for gpu in self.books.among(stalled) {
            gives |= self.keep_nothing(gpu, None);
        }
        let pending = &mut self.queue.pending;
        for at in 0..pending.waiters().len() {
            let waiter = &pending.waiters()[at];
            let is_stalled = !waiter.contexts.is_empty() && (waiter.gpus & !stalled).is_empty();
            if is_stalled && pending.beginner(at).expects() {
                pending.expect(at, 0);
                gives = true;
            }
        }
        gives
    }

    fn give_up_for_growth(&mut self, round: &Round<'_>) -> bool {
        let ledger = &self.books.ledger;
        let lacks = |waiting: &Waiting| {
            let gpu = waiting.gpus.first()?;
            let beyond = ledger.beyond_headroom(waiting.key(), waiting.bytes);
            let is_long = waiting.waits(round.now) >= self.books.rules.patience;
            (is_long && beyond > ledger.room(gpu)).then_some(gpu)
        };
        let growing = self.queue.pending.grows().iter();
        let gpus: Vec<usize> = growing.filter_map(|waiting| lacks(waiting)).collect();
        gpus.into_iter()
            .fold(false, |gives, gpu| gives | self.keep_nothing(gpu, None))
    }

    fn give_up_for_own(&mut self, round: &Round<'_>) -> bool {
        let mut gives = false;
        for at in 0..self.queue.pending.waiters().len() {
            let (books, pending) = (&self.books, &self.queue.pending);
            let (ledger, waiter) = (&books.ledger, pending.waiters()[at]);
            if books.can_begin(&waiter, &ledger.rooms_to_begin(round.covered())) {
                continue;
            }
            let kin = self.jobs.kin(&books.clients, waiter.client);
            let waiting = pending.beginner(at);
            // A part of its job is there already, and may wait for it.
            let is_there = |one: &ClientId| *one != waiter.client && !ledger.context_gpus(*one).is_empty();
            let is_missed = kin.iter().any(is_there) && waiting.expects();
            let could = |gpu: &usize| {
                let own: u64 = kin.iter().map(|&one| ledger.kept_for(one, *gpu)).sum();
                (own > 0 || is_missed)
                    && books.cost(&waiter, waiting.bytes, *gpu)
                        <= ledger.room_without(own, round.covered(), *gpu)
            };
            if let Some(gpu) = books.among(waiter.gpus).find(could) {
                self.begin_with_less(at, gpu, round, Some(&kin));
                gives = true;
            }
        }
        gives
    }

    fn give_up_for_first(&mut self, round: &Round<'_>) -> bool {
        let Some((at, gpu)) = self.first_kept_out(round) else {
            self.reserve.none_is_kept_out();
            return false;
        };
        let (books, pending) = (&self.books, &mut self.queue.pending);
        if books.ledger.charges(gpu).is_idle() {
            let context = books.cost(&pending.waiters()[at], 0, gpu);
            let room = books.ledger.room_to_begin(round.covered(), gpu);
            let spare = room.saturating_sub(context);
            if spare < pending.beginner(at).bytes {
                self.begin_with_less(at, gpu, round, None);
            } else {
                pending.expect(at, spare);
            }
            return true;
        }
        let since = self.reserve.kept_out_since(pending.beginner(at).key(), round.now);
        let patience = books.rules.patience.saturating_mul(HOLDER_PATIENCE);
        let mean = self.history.mean();
        let most = mean.map_or(patience, |mean| mean.max(patience));
        let tasks = books.ledger.tasks().filter(|(_, held)| held.gpu == gpu);
        let rests = |key: TaskKey| round.snapshot.rests(key.client, gpu, IDLE_TIMEOUT);
        let most = if tasks.map(|(key, _)| key).all(rests) {
            IDLE_TIMEOUT.min(most)
        } else {
            most
        };
        if round.now.saturating_sub(since) < most {
            return false;
        }
        self.reserve.none_is_kept_out();
        self.begin_with_less(at, gpu, round, None);
        true
    }

    /// The first request that could begin without expectations, by its position, and its GPU.
    fn first_kept_out(&self, round: &Round<'_>) -> Option<(usize, usize)> {
        let (books, pending, ledger) = (&self.books, &self.queue.pending, &self.books.ledger);
        let rooms = ledger.rooms_to_begin(round.covered());
        let without = |gpu| ledger.room_without(ledger.charges(gpu).kept(), round.covered(), gpu);
        let rooms_without: Vec<u64> = (0..rooms.len()).map(without).collect();
        let most = rooms_without.iter().copied().max().unwrap_or(0);
        let is_idle = |gpu: usize| ledger.charges(gpu).is_idle();
        let kept_out = |(at, waiter): (usize, &Waiter)| {
            let bytes = if pending.expects() {
                pending.beginner(at).bytes
            } else {
                waiter.bytes
            };
            if bytes > most || books.can_begin(waiter, &rooms) {
                return None;
            }
            // A task that wants a GPU for itself waits for other processes, not for expectations.
            let could = |gpu: &usize| {
                books.cost(waiter, bytes, *gpu) <= rooms_without[*gpu] && (!waiter.alone || is_idle(*gpu))
            };
            let gpus = books.among(waiter.gpus).filter(could);
            Some((at, gpus.max_by_key(|gpu| is_idle(*gpu))?))
        };
        pending.waiters().iter().enumerate().find_map(kept_out)
    }

    /// Has a task begin with what it asks for; where that is not there, what is kept on the GPU for these
    /// clients, or for all, is given up.
    fn begin_with_less(&mut self, at: usize, gpu: usize, round: &Round<'_>, from: Option<&[ClientId]>) {
        self.queue.pending.expect(at, 0);
        let waiter = &self.queue.pending.waiters()[at];
        let room = self.books.ledger.room_to_begin(round.covered(), gpu);
        if self.books.cost(waiter, waiter.bytes, gpu) > room {
            let Some(clients) = from else {
                self.keep_nothing(gpu, None);
                return;
            };
            for &client in clients {
                self.keep_nothing(gpu, Some(client));
            }
        }
    }
}
