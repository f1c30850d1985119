//! Expectations: a task that begins is to have the room to which tasks of its kind grew before, and that room
//! is kept for it while it runs ([`crate::ledger::Holding::headroom`]). With a process's first task comes
//! what its program took beside tasks before ([`super::overhead`]).
//!
//! They are wishes, and give way to whoever cannot do without. After a round, and only then, since most of
//! waiting requests are served in it:
//!
//! - On a stalled GPU (see [`crate::deadlock`]) nothing is kept for any process, and processes that can only
//!   go to such GPUs begin with what they ask for. So no process swaps or is refused for room that none has
//!   asked for.
//! - Nothing is kept from a growth that has waited for the patience: others wait for what its process holds.
//! - Nothing that is kept for a process keeps it from beginning a task itself.
//! - The same holds for processes that have the order of one job ([`super::jobs`]), since they may wait for
//!   each other: nothing that is kept for one keeps another out, and once one of them has something, the
//!   others begin with what they ask for.
//! - The first request that only expectations (its own or others') keep from beginning waits for
//!   [`HOLDER_PATIENCE`] times the patience after it has become the first, and no less than tasks last on
//!   average: usually some task ends meanwhile. Then it begins with what it asks for, and what is kept for
//!   others on a GPU where that helps is theirs no more. Where there is no task to wait for, since all that
//!   others have there are contexts, it begins at once with all the room there is, or with what is kept for
//!   those.

use std::time::Duration;

use mgb_probe::need::ALONE;
use mgb_probe::wire::Request;

use super::{Broker, Snapshot, Waiting};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::policies::{HOLDER_PATIENCE, Waiter};

impl Broker {
    /// Bytes that are to be there for a task that begins on one of `gpus`, if so many `more` than it asks for
    /// are expected: never so many that no GPU could hold them. One that has a GPU for itself can grow there
    /// anyway.
    pub(super) fn expected_bytes(&self, request: &Request, gpus: GpuSet, more: u64) -> u64 {
        let bytes = request.need.reserved_bytes();
        if self.ledger.blind() || request.need.flags & ALONE != 0 {
            return bytes;
        }
        let holds = |gpu: usize| {
            let gpu = &self.ledger.gpus()[gpu];
            gpu.usable_bytes.saturating_sub(gpu.context_bytes)
        };
        let most = self.among(gpus).map(holds).max().unwrap_or(0);
        bytes.saturating_add(more).min(most).max(bytes)
    }

    fn among(&self, gpus: GpuSet) -> impl Iterator<Item = usize> + use<> {
        (0..self.ledger.gpus().len()).filter(move |gpu| gpus.contains(gpu))
    }

    /// After a round: takes expected bytes from the processes that must give them up, as the module
    /// describes. False: no process gave anything up.
    pub(super) fn give_up_expectations(
        &mut self,
        covered: &[Option<u64>],
        snapshot: &Snapshot,
        now: Duration,
    ) -> bool {
        let is_kept = (0..self.ledger.gpus().len()).any(|gpu| self.ledger.charges(gpu).kept() > 0);
        if !is_kept && !self.queue.expects() {
            self.kept_out = None;
            return false;
        }
        let mut gives = false;
        if self.queue.of_holders().next().is_some() {
            gives |= self.give_up_on_stalled(snapshot, now);
            gives |= self.give_up_for_growth(now);
        }
        gives |= self.give_up_for_own(covered);
        gives | self.give_up_for_first(covered, now)
    }

    /// True: a process gave something up there.
    fn keep_nothing(&mut self, gpu: usize, only: Option<ClientId>) -> bool {
        let before = self.ledger.charges(gpu).kept();
        self.ledger.forgo(gpu, only);
        self.ledger.charges(gpu).kept() < before
    }

    fn give_up_on_stalled(&mut self, snapshot: &Snapshot, now: Duration) -> bool {
        let stalled = self.stalled(&self.holders(snapshot, now), now);
        let mut gives = false;
        for gpu in self.among(stalled) {
            gives |= self.keep_nothing(gpu, None);
        }
        for at in 0..self.queue.waiters().len() {
            let waiter = &self.queue.waiters()[at];
            if !waiter.contexts.is_empty()
                && (waiter.gpus & !stalled).is_empty()
                && self.queue.beginner(at).expects()
            {
                self.queue.expect(at, 0);
                gives = true;
            }
        }
        gives
    }

    fn give_up_for_growth(&mut self, now: Duration) -> bool {
        let lacks = |waiting: &Waiting| {
            let gpu = waiting.gpus.first()?;
            let beyond = self.ledger.beyond_headroom(waiting.key(), waiting.bytes);
            let is_long = waiting.waits(now) >= self.rules.patience;
            (is_long && beyond > self.ledger.room(gpu)).then_some(gpu)
        };
        let gpus: Vec<usize> = self.queue.grows().iter().filter_map(|w| lacks(w)).collect();
        gpus.into_iter()
            .fold(false, |gives, gpu| gives | self.keep_nothing(gpu, None))
    }

    fn give_up_for_own(&mut self, covered: &[Option<u64>]) -> bool {
        let mut gives = false;
        for at in 0..self.queue.waiters().len() {
            let waiter = self.queue.waiters()[at];
            if self.can_begin(&waiter, &self.rooms_to_begin(covered)) {
                continue;
            }
            let kin = self.kin(waiter.client);
            let bytes = self.queue.beginner(at).bytes;
            // A part of its job is there already, and may wait for it.
            let is_missed = kin
                .iter()
                .any(|&one| one != waiter.client && !self.contexts_of(one).is_empty())
                && self.queue.beginner(at).expects();
            let could = |gpu: &usize| {
                let own: u64 = kin.iter().map(|&one| self.ledger.kept_for(one, *gpu)).sum();
                (own > 0 || is_missed)
                    && self.cost(&waiter, bytes, *gpu) <= self.room_without(own, covered, *gpu)
            };
            if let Some(gpu) = self.among(waiter.gpus).find(could) {
                self.begin_with_less(at, gpu, covered, Some(&kin));
                gives = true;
            }
        }
        gives
    }

    fn give_up_for_first(&mut self, covered: &[Option<u64>], now: Duration) -> bool {
        let Some((at, gpu)) = self.first_kept_out(covered) else {
            self.kept_out = None;
            return false;
        };
        if self.ledger.charges(gpu).is_idle() {
            let waiter = &self.queue.waiters()[at];
            let spare = self
                .room_to_begin(covered, gpu)
                .saturating_sub(self.cost(waiter, 0, gpu));
            if spare < self.queue.beginner(at).bytes {
                self.begin_with_less(at, gpu, covered, None);
            } else {
                self.queue.expect(at, spare);
            }
            return true;
        }
        let key = self.queue.beginner(at).key();
        let since = match self.kept_out {
            Some((first, since)) if first == key => since,
            _ => now,
        };
        self.kept_out = Some((key, since));
        let patience = self.rules.patience.saturating_mul(HOLDER_PATIENCE);
        let most = self.past.mean().map_or(patience, |mean| mean.max(patience));
        if now.saturating_sub(since) < most {
            return false;
        }
        self.kept_out = None;
        self.begin_with_less(at, gpu, covered, None);
        true
    }

    /// The first request that could begin without expectations, by its position, and its GPU.
    fn first_kept_out(&self, covered: &[Option<u64>]) -> Option<(usize, usize)> {
        let rooms = self.rooms_to_begin(covered);
        let without = |gpu| self.room_without(self.ledger.charges(gpu).kept(), covered, gpu);
        let rooms_without: Vec<u64> = (0..rooms.len()).map(without).collect();
        let most = rooms_without.iter().copied().max().unwrap_or(0);
        let is_idle = |gpu: usize| self.ledger.charges(gpu).is_idle();
        let among = self.queue.waiters().iter().enumerate();
        let mut kept_out = among.filter_map(|(at, waiter)| {
            let bytes = if self.queue.expects() {
                self.queue.beginner(at).bytes
            } else {
                waiter.bytes
            };
            if bytes > most || self.can_begin(waiter, &rooms) {
                return None;
            }
            // A task that wants a GPU for itself waits for other processes, not for expectations.
            let could = |gpu: &usize| {
                self.cost(waiter, bytes, *gpu) <= rooms_without[*gpu] && (!waiter.alone || is_idle(*gpu))
            };
            let gpus = self.among(waiter.gpus).filter(could);
            Some((at, gpus.max_by_key(|gpu| is_idle(*gpu))?))
        });
        kept_out.next()
    }

    /// Has a task begin with what it asks for; where that is not there, what is kept on the GPU for these
    /// clients, or for all, is given up.
    fn begin_with_less(&mut self, at: usize, gpu: usize, covered: &[Option<u64>], from: Option<&[ClientId]>) {
        self.queue.expect(at, 0);
        let waiter = &self.queue.waiters()[at];
        if self.cost(waiter, waiter.bytes, gpu) > self.room_to_begin(covered, gpu) {
            let Some(clients) = from else {
                self.keep_nothing(gpu, None);
                return;
            };
            for &client in clients {
                self.keep_nothing(gpu, Some(client));
            }
        }
    }

    pub(super) fn rooms_to_begin(&self, covered: &[Option<u64>]) -> Vec<u64> {
        let gpus = 0..self.ledger.gpus().len();
        gpus.map(|gpu| self.room_to_begin(covered, gpu)).collect()
    }

    /// Whether there is room for the task and what it is expected to need.
    pub(super) fn can_begin(&self, waiter: &Waiter, rooms: &[u64]) -> bool {
        self.among(waiter.gpus)
            .any(|gpu| self.cost(waiter, waiter.bytes, gpu) <= rooms[gpu])
    }

    /// Bytes with the waiter's context on the GPU, where it has none yet.
    pub(super) fn cost(&self, waiter: &Waiter, bytes: u64, gpu: usize) -> u64 {
        let has_context = waiter.contexts.contains(gpu);
        let context = if has_context {
            0
        } else {
            self.ledger.gpus()[gpu].context_bytes
        };
        bytes.saturating_add(context)
    }

    /// As [`Broker::room_to_begin`], if so much less were kept there.
    pub(super) fn room_without(&self, less: u64, covered: &[Option<u64>], gpu: usize) -> u64 {
        let kept = self.ledger.charges(gpu).kept() - less;
        let shown = covered[gpu].map_or(u64::MAX, |shown| shown.saturating_sub(kept));
        (self.ledger.room(gpu) + less).min(shown)
    }
}
