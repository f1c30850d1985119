//! Grants: what the parts of the broker note of each.

use mgb_probe::need::MOVABLE;
use mgb_probe::wire::{NUMBERED, Reply};

use super::Broker;
use crate::broker::books::is_whole_process;
use crate::broker::jobs::JobOrder;
use crate::broker::queue::Waiting;
use crate::broker::round::Round;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::{EvictedTime, Holding};
use crate::policies::warps_charged;
use crate::sms::TaskLaunch;

impl Broker {
    /// Grants a task that begins. False if the ledger has no room for it, which would be an error of the
    /// caller's.
    pub(super) fn grant(&mut self, waiting: &Waiting, gpu: usize, round: &mut Round<'_>) -> bool {
        let (key, client, request) = (waiting.key(), waiting.client, &waiting.request);
        self.accounts.count_grant(&self.books, waiting, gpu);
        let uid = self.books.clients.user(client);
        let usable = self.accounts.usable(uid);
        let order = self.jobs.order_with(&self.books, usable, request, gpu);
        let cost = self.books.ledger.cost(client, gpu, waiting.bytes);
        let holding = self.holding(waiting, gpu, round);
        let overhead = waiting.expected_overhead();
        if let Err(error) = self.books.ledger.grant(key, holding, overhead) {
            tracing::error!(%error, "what does not fit was placed");
            return false;
        }
        if self.books.rules.policy.compute_hard() {
            self.books.ledger.compute(key, &TaskLaunch::of(&request.need));
        }
        self.note_contexts(client);
        round.spend(gpu, cost);
        self.accounts.serve(uid, round.now);
        self.queue.touches.touch(key, request.thread, round.now);
        let (bytes, waited) = (waiting.bytes, waiting.waits(round.now));
        self.history
            .began(&self.books, key, waiting.kind, bytes, waited, round.now);
        self.granted(waiting, gpu, reply(waiting, gpu, bytes, order), round);
        if let Some(order) = order {
            let answers = self.jobs.order(&self.books.clients, client, request, order);
            round.add_answers(answers);
        }
        true
    }

    fn holding(&self, waiting: &Waiting, gpu: usize, round: &Round<'_>) -> Holding {
        let request = &waiting.request;
        let max_warps = self.books.ledger.gpus()[gpu].max_warps;
        Holding {
            gpu,
            reserved: waiting.bytes,
            peak: waiting.bytes,
            expected_bytes: waiting.expected_bytes - waiting.expected_overhead(),
            warps: warps_charged(request.need.warps(), max_warps),
            running: true,
            swapped: false,
            evicted: 0,
            whole_process: is_whole_process(request),
            alone: self.books.wants_alone(request),
            may_go: if request.need.flags & MOVABLE == 0 {
                GpuSet::EMPTY
            } else {
                GpuSet::from_bits(request.gpus)
            },
            label: request.label,
            granted: round.now,
            deadline: waiting.deadline(),
            may_rest: request.site != 0,
            away: EvictedTime::default(),
        }
    }

    /// Grants more to a task. False if the ledger has no room for it, which would be an error of the
    /// caller's.
    pub(super) fn grant_growth(&mut self, waiting: &Waiting, gpu: usize, round: &mut Round<'_>) -> bool {
        let key = waiting.key();
        let comes_back = self
            .books
            .ledger
            .task(key)
            .is_some_and(|holding| holding.evicted > 0);
        let reserved = match self.books.ledger.grow(key, waiting.bytes) {
            Ok(reserved) => reserved,
            Err(error) => {
                tracing::error!(%error, "the ledger refused a growth that fits");
                return false;
            }
        };
        self.accounts.count_grant(&self.books, waiting, gpu);
        round.spend_growth(waiting, gpu);
        if comes_back {
            self.orders.came_back(waiting.client, round.now);
        }
        let waited = waiting.waits(round.now);
        self.history.grew(&self.books, key, reserved, waited, round.now);
        self.granted(waiting, gpu, reply(waiting, gpu, reserved, None), round);
        true
    }

    /// Grants room on another GPU to a task that has nothing where it was.
    pub(super) fn grant_elsewhere(&mut self, waiting: &Waiting, to: usize, round: &mut Round<'_>) {
        let key = waiting.key();
        match self.books.ledger.relocate(key, to) {
            Ok((from, to)) => tracing::info!(
                client = key.client,
                task = key.task,
                from,
                to,
                "goes on elsewhere"
            ),
            Err(error) => {
                tracing::error!(%error, "the ledger refused a move that fits");
                return;
            }
        }
        self.note_contexts(waiting.client);
        self.orders.moves.count(key, round.now);
        self.history.counts_mut().moved += 1;
        self.grant_growth(waiting, to, round);
    }

    /// The client may have contexts on more GPUs now.
    pub(super) fn note_contexts(&mut self, client: ClientId) {
        let contexts = self.books.ledger.context_gpus(client);
        self.queue.pending.has_contexts(client, contexts);
    }

    fn granted(&mut self, waiting: &Waiting, gpu: usize, reply: Reply, round: &mut Round<'_>) {
        tracing::debug!(
            pid = self.books.clients.pid(waiting.client),
            task = waiting.request.task,
            gpu,
            bytes = waiting.bytes,
            growth = waiting.grows(),
            waited_us = waiting.waits(round.now).as_micros() as u64,
            "granted"
        );
        self.orders.may_swap_again(waiting.client);
        round.answer(&mut self.queue, waiting, reply);
    }
}

/// The answer to a request that was granted, as the process understands it.
fn reply(waiting: &Waiting, gpu: usize, reserved: u64, order: Option<JobOrder>) -> Reply {
    let gpu = gpu as u32;
    match order.filter(|_| waiting.request.flags & NUMBERED != 0) {
        Some(JobOrder { numbering, .. }) => Reply::First {
            gpu,
            reserved,
            numbering,
        },
        None => Reply::Granted { gpu, reserved },
    }
}
