//! One round over the queue: growth first, then what the policy grants, the same
//! again if a process gives up room that is only expected to be needed
//! ([`super::expectations`]), then the way out of a deadlock.
//!
//! Growth goes before new tasks, since others wait for growing tasks; among
//! growths the senior process goes first, and after the patience no junior
//! growth passes it on its GPU. On a stalled GPU (see [`crate::deadlock`])
//! nothing is kept: only requests that pass can set the GPU going again; but those who make room for another
//! there do not take it ([`crate::broker::reserve::Claims`]).
//!
//! While a task has a GPU for itself, no other task grows or begins there.
//!
//! Latency programs go before batch programs, in both, until one of those has waited for very long. What is
//! kept for batch programs is not kept from them.

use std::time::Duration;

use mgb_probe::wire::NUMBERED;

use super::Broker;
use crate::broker::accounts::FairOrder;
use crate::broker::answer::Answer;
use crate::broker::queue::Waiting;
use crate::broker::round::{Cover, Round, cost_of_move};
use crate::broker::snapshot::Snapshot;
use crate::deadlock::{self, Blocked};
use crate::gpu_set::GpuSet;
use crate::ledger::Colocation;
use crate::policies::{self, Claim, GpuState, HOLDER_PATIENCE, Placement, View};

impl Broker {
    /// Answers whoever can be answered now, and takes what it grants off what `snapshot` has covered.
    /// If requests wait although there are leases, the caller takes those away and serves again.
    pub fn serve(&mut self, snapshot: &mut Snapshot, now: Duration) -> Vec<Answer> {
        self.schedule(snapshot, now, false)
    }

    /// Grants what fits to requests that came while none waited; the snapshot may be up to 1 ms old.
    /// Whoever waits after that is answered by [`Broker::serve`].
    pub fn serve_newcomers(&mut self, snapshot: &mut Snapshot, now: Duration) -> Vec<Answer> {
        self.schedule(snapshot, now, true)
    }

    fn schedule(&mut self, snapshot: &mut Snapshot, now: Duration, newcomers: bool) -> Vec<Answer> {
        let cover = Cover::take(snapshot);
        let mut round = Round::new(snapshot, cover, now);
        self.prepare_round(&mut round, newcomers);
        if !self.queue.pending.is_empty() {
            self.schedule_round(&mut round, newcomers);
        }
        let (cover, answers) = round.finish();
        cover.put(snapshot);
        answers
    }

    /// What comes before requests are served: those that are suspended leave, and orders are given that people want.
    fn prepare_round(&mut self, round: &mut Round<'_>, newcomers: bool) {
        self.books.control.set_lost(round.snapshot.lost);
        self.replace_leaders(round.now);
        self.suspend_requests(round.now);
        if !newcomers {
            self.let_eldest_beyond(round);
            self.order_out(round);
            self.grant_wishes(round);
        }
        round.add_answers(self.queue.take_overdue());
    }

    fn schedule_round(&mut self, round: &mut Round<'_>, newcomers: bool) {
        round.cover_all(&self.books.ledger);
        // Deadlocks and resting GPUs concern only requests that have waited.
        if !newcomers || self.books.rules.policy.compute_hard() {
            round.survey(&self.books, &self.queue, &self.orders);
        }
        if !newcomers {
            self.drop_claims(round);
            self.drop_latency_claims(round);
        }
        self.serve_growth(round);
        if !newcomers {
            self.gather(round);
            self.admit_aged(round);
        }
        self.serve_beginners(round);
        if newcomers || !round.snapshot.leased.is_empty() || self.books.ledger.blind() {
            return;
        }
        if self.give_up_expectations(round) {
            round.survey(&self.books, &self.queue, &self.orders);
            self.serve_growth(round);
            self.serve_beginners(round);
        }
        self.break_deadlocks(round);
        let lacks = self.may_balance().then(|| round.lacks(&self.books, &self.queue));
        self.balance(lacks.as_deref().unwrap_or(&[]), round);
        self.evict_idle(lacks, round);
    }

    /// Drops the claims of processes that do not wait any more, or for which no room can be made, and those on GPUs
    /// where a process can go on again.
    fn drop_claims(&mut self, round: &Round<'_>) {
        if self.reserve.claims.is_empty() {
            return;
        }
        let blocked = round.blocked(&self.books, &self.queue);
        let rooms = round.rooms(&self.books);
        let can_be_met = |request: &Blocked, gpu: usize, claim: Claim| {
            request.client == claim.client
                && request.gpus.contains(gpu)
                && deadlock::can_make_room(round.holders(), request, &rooms, gpu, claim.over_elders)
        };
        let orders = &self.orders;
        self.reserve.claims.retain(|gpu, claim| {
            (round.stalled().contains(gpu) || orders.swaps_from(gpu))
                && blocked.iter().any(|request| can_be_met(request, gpu, claim))
        });
    }

    fn serve_growth(&mut self, round: &mut Round<'_>) {
        let growing = self.queue.pending.grows();
        if growing.is_empty() {
            return;
        }
        let growing = growing.iter().map(|waiting| Waiting::clone(waiting)).collect();
        let growing = self.growths_in_order(growing, round);
        let mut kept = GpuSet::EMPTY;
        let colocation = Colocation::of(&self.books.ledger);
        for waiting in growing {
            let Some(gpu) = self.books.ledger.task(waiting.key()).map(|holding| holding.gpu) else {
                continue;
            };
            let is_closed = colocation.is_closed(gpu, waiting.client);
            if is_closed || !self.accounts.may_grow(&self.books, &waiting) {
                continue;
            }
            let fits = self.may_grow_there(&waiting, gpu, round);
            if !fits && let Some(to) = self.room_elsewhere(&waiting, round, &colocation) {
                self.grant_elsewhere(&waiting, to, round);
            } else if kept.contains(gpu) || !fits {
                let is_long = waiting.waits(round.now) >= self.books.rules.patience;
                if is_long && !round.stalled().contains(gpu) {
                    kept.insert(gpu);
                }
            } else {
                self.grant_growth(&waiting, gpu, round);
            }
        }
    }

    /// Growths in the order in which they are served: latency programs and then the senior first. Among those
    /// that come back with nothing left on their GPUs, who waits longest takes the first of their places: they
    /// keep nobody waiting, and where they leave and come back all the time, the most junior would never be
    /// served.
    fn growths_in_order(&self, mut growing: Vec<Waiting>, round: &Round<'_>) -> Vec<Waiting> {
        let goes_first = self.latency_goes_first(round);
        let is_behind = |waiting: &Waiting| !goes_first || !round.is_latency(waiting.client);
        growing.sort_by_key(|waiting| (is_behind(waiting), waiting.client, waiting.since));
        let has_nothing = |waiting: &Waiting| {
            let task = self.books.ledger.task(waiting.key());
            task.is_some_and(|holding| holding.evicted > 0 && holding.reserved == 0)
        };
        let places: Vec<usize> = (0..growing.len())
            .filter(|&at| has_nothing(&growing[at]))
            .collect();
        let mut back: Vec<Waiting> = places.iter().map(|&at| growing[at].clone()).collect();
        back.sort_by_key(|waiting| (is_behind(waiting), waiting.since));
        for (at, waiting) in places.into_iter().zip(back) {
            growing[at] = waiting;
        }
        growing
    }

    /// Whether a growth fits where its task is, and the task is to stay there.
    fn may_grow_there(&self, waiting: &Waiting, gpu: usize, round: &Round<'_>) -> bool {
        let is_to_leave =
            self.is_drained(gpu) && self.books.may_go_elsewhere(waiting.key(), &waiting.request);
        round.has_room_to_grow(&self.books.ledger, waiting, gpu)
            && !is_to_leave
            && !self.reserve.claims.keep_out(waiting.client, gpu)
    }

    /// Another GPU with room for a task that asks for all that it has.
    fn room_elsewhere(&self, waiting: &Waiting, round: &Round<'_>, colocation: &Colocation) -> Option<usize> {
        let books = &self.books;
        let (key, client) = (waiting.key(), waiting.client);
        let holding = books.ledger.task(key)?;
        if !books.may_go_elsewhere(key, &waiting.request) {
            return None;
        }
        let uid = books.clients.user(client);
        let may = holding.may_go & GpuSet::from_bits(waiting.request.gpus) & !books.control.closed();
        let fits = |to: &usize| {
            let cost = cost_of_move(books, key, *to).saturating_add(waiting.bytes);
            *to != holding.gpu
                && !colocation.is_closed(*to, client)
                && !self.reserve.claims.keep_out(client, *to)
                && self.accounts.may_be_on(uid, *to)
                && cost <= books.ledger.room_to_begin(round.covered(), *to)
        };
        books.among(may).find(fits)
    }

    /// Whether latency programs are served before batch programs: some wait, and no batch program has waited
    /// for very long.
    fn latency_goes_first(&self, round: &Round<'_>) -> bool {
        let rules = &self.books.rules;
        let very_long = rules.patience.saturating_mul(HOLDER_PATIENCE);
        let pending = || self.queue.pending.iter();
        let has_aged =
            |waiting: &Waiting| !round.is_latency(waiting.client) && waiting.waits(round.now) >= very_long;
        round.has_latency()
            && pending().any(|waiting| round.is_latency(waiting.client))
            && !pending().any(has_aged)
    }

    fn serve_beginners(&mut self, round: &mut Round<'_>) {
        if self.latency_goes_first(round) {
            self.serve_beginners_of(Served::LatencyPrograms, round);
        }
        self.serve_beginners_of(Served::All, round);
    }

    fn serve_beginners_of(&mut self, served: Served, round: &mut Round<'_>) {
        loop {
            let heeds = |client| served == Served::All || round.is_latency(client);
            let gpus = round.gpu_states(&self.books, &self.queue, &self.reserve, &self.jobs, heeds);
            let (mut is_beyond, mut expects_more) = (false, false);
            for (waiting, gpu) in self.placed(&gpus, served, round) {
                // What was granted before it may have been the last that its user may have.
                if !self.is_within_limits(&waiting, gpu) {
                    is_beyond = true;
                } else if self.grant(&waiting, gpu, round) && leads_to_more(&waiting) {
                    // The others are placed with its further devices in mind.
                    expects_more = true;
                    break;
                }
            }
            if is_beyond {
                // Somebody else may have what the policy meant for those.
                self.suspend_requests(round.now);
            } else if !expects_more {
                return;
            }
        }
    }

    /// Whether the user of a request to begin may have it on the GPU.
    fn is_within_limits(&self, waiting: &Waiting, gpu: usize) -> bool {
        let there = GpuSet::of(gpu);
        let with_place = self.accounts.with_place(&self.books, waiting.client, there);
        !with_place.is_empty() && !self.accounts.within_quota(&self.books, waiting, there).is_empty()
    }

    /// What the policy places now of those that are served, and where.
    fn placed(&self, gpus: &[GpuState], served: Served, round: &Round<'_>) -> Vec<(Waiting, usize)> {
        let (rules, pending, now) = (&self.books.rules, &self.queue.pending, round.now);
        let mut order = self.accounts.fair_order(&self.books, pending.waiters(), now);
        let is_ordered = order.is_some();
        if served == Served::LatencyPrograms {
            let all = order.unwrap_or_else(|| FairOrder::of_queue(pending.waiters()));
            order = Some(all.only(|waiter| round.is_latency(waiter.client)));
        }
        let view = View {
            gpus,
            sms: self.books.ledger.sms(),
            waiting: order.as_ref().map_or(pending.waiters(), |order| &order.waiters),
            is_ordered,
            now,
            patience: rules.patience,
        };
        let placements = policies::place(rules.policy, &view, rules.queue).into_iter();
        let position = |at: usize| order.as_ref().map_or(at, |order| order.positions[at]);
        let placed =
            placements.map(|Placement { waiter, gpu }| (pending.beginner(position(waiter)).clone(), gpu));
        placed.collect()
    }
}

/// Which requests to begin are served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// Those of latency programs, as if there were no others.
    LatencyPrograms,
    /// Those of all programs.
    All,
}

/// Whether the process may use further devices, of which is decided with its first one.
fn leads_to_more(waiting: &Waiting) -> bool {
    waiting.request.flags & NUMBERED != 0 && waiting.request.gpus.count_ones() > 1
}
