//! One round over the queue: growth first, then what the policy grants, the same
//! again if a process gives up room that is only expected to be needed
//! ([`super::expect`]), then the way out of a deadlock.
//!
//! Growth goes before new tasks, since others wait for growing tasks; among
//! growths the senior process goes first, and after the patience no junior
//! growth passes it on its GPU. On a stalled GPU (see [`crate::deadlock`])
//! nothing is kept: only requests that pass can set the GPU going again; but those who make room for another
//! there do not take it ([`super::claims`]).
//!
//! While a task has a GPU for itself, no other task grows or begins there.

use std::time::Duration;

use mgb_probe::need::MOVABLE;
use mgb_probe::wire::{NUMBERED, Reply};

use super::jobs::Order;
use super::{Answer, Broker, Snapshot, Touch, Waiting, is_whole_process};
use crate::deadlock::Holder;
use crate::gpu_set::GpuSet;
use crate::ledger::{Away, Colocation, Holding};
use crate::policies::{GpuState, Placement, View, warps_charged};
use crate::sms::Launch;

impl Broker {
    /// Answers whoever can be answered now, and takes what it grants off what `snapshot` has covered.
    /// If requests wait although there are leases, the caller takes those away and serves again.
    pub fn serve(&mut self, snapshot: &mut Snapshot, now: Duration) -> Vec<Answer> {
        self.round(snapshot, now, false)
    }

    /// Grants what fits to requests that came while none waited; the snapshot may be up to 1 ms old.
    /// Whoever waits after that is answered by [`Broker::serve`].
    pub fn serve_newcomers(&mut self, snapshot: &mut Snapshot, now: Duration) -> Vec<Answer> {
        self.round(snapshot, now, true)
    }

    fn round(&mut self, snapshot: &mut Snapshot, now: Duration, newcomers: bool) -> Vec<Answer> {
        self.lost = snapshot.lost;
        self.replace_leaders(now);
        self.hold_back(now);
        if !newcomers {
            self.let_eldest_beyond(snapshot, now);
            self.order_out(snapshot, now);
            self.grant_wishes(snapshot, now);
        }
        let mut answers = std::mem::take(&mut self.overdue);
        if self.queue.is_empty() {
            return answers;
        }
        self.ahead = std::mem::take(&mut snapshot.ahead);
        let mut covered = std::mem::take(&mut snapshot.covered);
        covered.resize(self.ledger.gpus().len(), None);
        // Deadlocks and resting GPUs concern only requests that have waited.
        let (mut holders, mut stalled) = (Vec::new(), GpuSet::EMPTY);
        if !newcomers || self.rules.policy.compute_hard() {
            (holders, stalled) = self.holders_that_wait(snapshot, now);
        }
        if !newcomers {
            self.drop_claims(&holders, stalled, &covered, now);
        }
        self.serve_growth(&mut covered, stalled, now, &mut answers);
        if !newcomers {
            self.gather(&covered, stalled, now);
            self.admit_aged(&mut covered, snapshot, now, &mut answers);
        }
        self.serve_beginners(&mut covered, snapshot, stalled, &holders, now, &mut answers);
        if !newcomers && snapshot.leased.is_empty() && !self.ledger.blind() {
            if self.give_up_expectations(&covered, snapshot, now) {
                (holders, stalled) = self.holders_that_wait(snapshot, now);
                self.serve_growth(&mut covered, stalled, now, &mut answers);
                self.serve_beginners(&mut covered, snapshot, stalled, &holders, now, &mut answers);
            }
            self.break_deadlocks(&mut covered, snapshot, now, &mut answers);
            let lacks = self.may_balance().then(|| self.lacks(&covered, snapshot, now));
            self.balance(&covered, lacks.as_deref().unwrap_or(&[]), snapshot, now);
            self.evict_idle(&covered, lacks, snapshot, now);
        }
        snapshot.covered = covered;
        snapshot.ahead = std::mem::take(&mut self.ahead);
        answers
    }

    /// Bytes that can be granted: what the ledger has left, if the driver shows
    /// them free too.
    pub(super) fn grantable(&self, covered: &[Option<u64>], gpu: usize) -> u64 {
        if self.ledger.blind() {
            return u64::MAX;
        }
        self.ledger.room(gpu).min(covered[gpu].unwrap_or(u64::MAX))
    }

    /// The same for tasks that begin: what holders are expected to need is not theirs, although the driver
    /// shows it free.
    pub(super) fn room_to_begin(&self, covered: &[Option<u64>], gpu: usize) -> u64 {
        if self.ledger.blind() {
            return u64::MAX;
        }
        self.room_without(0, covered, gpu)
    }

    /// Whether a growth can be granted: the driver shows all of it free that the process has not mapped
    /// already, and what its headroom does not hold is left in the ledger.
    pub(super) fn has_room_to_grow(&self, waiting: &Waiting, covered: &[Option<u64>], gpu: usize) -> bool {
        let beyond = self.ledger.beyond_headroom(waiting.key(), waiting.bytes);
        let is_shown = covered[gpu].is_none_or(|shown| self.missing(waiting, gpu) <= shown);
        // Room on another GPU waits for all that the task had when it was ordered there.
        if self.ledger.arrival(waiting.key()).is_some() {
            return false;
        }
        self.ledger.blind() || is_shown && beyond <= self.ledger.room(gpu)
    }

    /// Bytes of a growth that the driver has yet to give.
    fn missing(&self, waiting: &Waiting, gpu: usize) -> u64 {
        let ahead = self.ahead.get(&(waiting.client, gpu)).copied().unwrap_or(0);
        waiting.bytes.saturating_sub(ahead)
    }

    fn serve_growth(
        &mut self,
        covered: &mut [Option<u64>],
        stalled: GpuSet,
        now: Duration,
        answers: &mut Vec<Answer>,
    ) {
        if self.queue.grows().is_empty() {
            return;
        }
        let mut growing: Vec<Waiting> = self.queue.grows().iter().map(|w| Waiting::clone(w)).collect();
        growing.sort_by_key(|waiting| (waiting.client, waiting.since));
        let mut kept = GpuSet::EMPTY;
        let colocation = Colocation::of(&self.ledger);
        for waiting in growing {
            let Some(gpu) = self.ledger.task(waiting.key()).map(|held| held.gpu) else {
                continue;
            };
            if colocation.is_closed(gpu, waiting.client) {
                continue;
            }
            let is_to_leave = self.is_drained(gpu) && self.may_go_elsewhere(waiting.key(), &waiting.request);
            if !self.may_grow(&waiting) {
                continue;
            }
            let is_claimed = self.is_claimed(gpu, waiting.client);
            let fits = self.has_room_to_grow(&waiting, covered, gpu) && !is_to_leave && !is_claimed;
            let elsewhere = if fits {
                None
            } else {
                self.room_elsewhere(&waiting, covered, &colocation)
            };
            if let Some(to) = elsewhere {
                self.grant_elsewhere(&waiting, to, covered, now, answers);
                continue;
            }
            if kept.contains(gpu) || !fits {
                if waiting.waits(now) >= self.rules.patience {
                    kept |= GpuSet::of(gpu) & !stalled;
                }
                continue;
            }
            self.grant_growth(&waiting, gpu, covered, now, answers);
        }
    }

    /// Grants more to a task. False if the ledger has no room for it, which would be an error of the
    /// caller's.
    pub(super) fn grant_growth(
        &mut self,
        waiting: &Waiting,
        gpu: usize,
        covered: &mut [Option<u64>],
        now: Duration,
        answers: &mut Vec<Answer>,
    ) -> bool {
        match self.ledger.grow(waiting.key(), waiting.bytes) {
            Ok(reserved) => {
                self.count_grant(waiting, gpu);
                spend(covered, gpu, self.missing(waiting, gpu));
                // It has less beyond its reservation now.
                self.ahead
                    .entry((waiting.client, gpu))
                    .and_modify(|ahead| *ahead = ahead.saturating_sub(waiting.bytes));
                self.counts.grown += 1;
                self.past.grew(waiting.key(), reserved);
                self.came_back(waiting.client, now);
                self.took_more(waiting.client, waiting.waits(now), now);
                self.granted(waiting, gpu, granted(waiting, gpu, reserved, None), now, answers);
                true
            }
            Err(error) => {
                tracing::error!(%error, "the ledger refused a growth that fits");
                false
            }
        }
    }

    fn serve_beginners(
        &mut self,
        covered: &mut [Option<u64>],
        snapshot: &Snapshot,
        stalled: GpuSet,
        holders: &[Holder],
        now: Duration,
        answers: &mut Vec<Answer>,
    ) {
        loop {
            let gpus = self.gpu_states(covered, snapshot, stalled, holders, now);
            let (mut is_beyond, mut expects_more) = (false, false);
            for (waiting, gpu) in self.placed(&gpus, now) {
                // What was granted before it may have been the last that its user may have.
                let has_place = !self.with_place(waiting.client, GpuSet::of(gpu)).is_empty();
                if !has_place || self.within_quota(&waiting, GpuSet::of(gpu)).is_empty() {
                    is_beyond = true;
                } else if self.grant(&waiting, gpu, covered, now, answers) && leads_to_more(&waiting) {
                    // The others are placed with its further devices in mind.
                    expects_more = true;
                    break;
                }
            }
            if is_beyond {
                // Somebody else may have what the policy meant for those.
                self.hold_back(now);
            } else if !expects_more {
                return;
            }
        }
    }

    /// What the policy places now, and where.
    fn placed(&self, gpus: &[GpuState], now: Duration) -> Vec<(Waiting, usize)> {
        let in_order = self.in_order(now);
        let view = View {
            gpus,
            sms: self.ledger.sms(),
            waiting: in_order
                .as_ref()
                .map_or(self.queue.waiters(), |order| &order.waiters),
            is_ordered: in_order.is_some(),
            now,
            patience: self.rules.patience,
        };
        let placements = self.rules.policy.place(&view, self.rules.queue);
        let place = |at: usize| in_order.as_ref().map_or(at, |order| order.places[at]);
        let placed = placements.into_iter();
        let placed =
            placed.map(|Placement { waiter, gpu }| (self.queue.beginner(place(waiter)).clone(), gpu));
        placed.collect()
    }

    /// Grants a task that begins. False if the ledger has no room for it, which would be an error of the
    /// caller's.
    pub(super) fn grant(
        &mut self,
        waiting: &Waiting,
        gpu: usize,
        covered: &mut [Option<u64>],
        now: Duration,
        answers: &mut Vec<Answer>,
    ) -> bool {
        self.count_grant(waiting, gpu);
        let order = self.order_with(waiting, gpu);
        let cost = self.ledger.cost(waiting.client, gpu, waiting.bytes);
        let max_warps = self.ledger.gpus()[gpu].max_warps;
        let overhead = waiting.expected_overhead();
        let holding = Holding {
            gpu,
            reserved: waiting.bytes,
            peak: waiting.bytes,
            expected_bytes: waiting.expected_bytes - overhead,
            warps: warps_charged(waiting.request.need.warps(), max_warps),
            running: true,
            swapped: false,
            evicted: 0,
            whole_process: is_whole_process(&waiting.request),
            alone: self.wants_alone(waiting),
            may_go: if waiting.request.need.flags & MOVABLE == 0 {
                GpuSet::EMPTY
            } else {
                GpuSet::from_bits(waiting.request.gpus)
            },
            label: waiting.request.label,
            granted: now,
            may_rest: waiting.request.site != 0,
            away: Away::default(),
        };
        if let Err(error) = self.ledger.grant(waiting.key(), holding, overhead) {
            tracing::error!(%error, "what does not fit was placed");
            return false;
        }
        if self.rules.policy.compute_hard() {
            self.ledger
                .compute(waiting.key(), &Launch::of(&waiting.request.need));
        }
        if let Some(which) = waiting.which {
            self.past.began(waiting.key(), which, waiting.bytes);
        }
        let contexts = self.contexts_of(waiting.client);
        self.queue.has_contexts(waiting.client, contexts);
        spend(covered, gpu, cost);
        self.counts.granted += 1;
        self.accounts.served.insert(self.user(waiting.client), now);
        let thread = waiting.request.thread;
        self.touched.insert(waiting.key(), Touch { thread, at: now });
        self.took(waiting.client, waiting.waits(now), now);
        let reply = granted(waiting, gpu, waiting.bytes, order);
        self.granted(waiting, gpu, reply, now, answers);
        if let Some(order) = order {
            self.order(waiting, order, answers);
        }
        true
    }

    fn granted(
        &mut self,
        waiting: &Waiting,
        gpu: usize,
        reply: Reply,
        now: Duration,
        answers: &mut Vec<Answer>,
    ) {
        let pid = self.clients.get(&waiting.client).map_or(0, |client| client.pid);
        tracing::debug!(
            pid,
            task = waiting.request.task,
            gpu,
            bytes = waiting.bytes,
            growth = waiting.grows(),
            waited_us = waiting.waits(now).as_micros() as u64,
            "granted"
        );
        if let Some(client) = self.clients.get_mut(&waiting.client) {
            client.cannot_swap = GpuSet::EMPTY;
        }
        self.answer(waiting, reply, answers);
    }

    /// Answers a waiting request, which leaves the queue.
    pub(super) fn answer(&mut self, waiting: &Waiting, reply: Reply, answers: &mut Vec<Answer>) {
        self.queue.remove(waiting.client, waiting.cell);
        answers.push(Answer {
            client: waiting.client,
            cell: waiting.cell,
            reply,
        });
    }
}

/// Whether the process may use further devices, of which is decided with its first one.
fn leads_to_more(waiting: &Waiting) -> bool {
    waiting.request.flags & NUMBERED != 0 && waiting.request.gpus.count_ones() > 1
}

/// The answer to a request that was granted, as the process understands it.
fn granted(waiting: &Waiting, gpu: usize, reserved: u64, order: Option<Order>) -> Reply {
    let gpu = gpu as u32;
    match order.filter(|_| waiting.request.flags & NUMBERED != 0) {
        Some(Order { numbering, .. }) => Reply::First {
            gpu,
            reserved,
            numbering,
        },
        None => Reply::Granted { gpu, reserved },
    }
}

fn spend(covered: &mut [Option<u64>], gpu: usize, bytes: u64) {
    covered[gpu] = covered[gpu].map(|left| left.saturating_sub(bytes));
}
