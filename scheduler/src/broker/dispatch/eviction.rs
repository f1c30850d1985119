//! Evicts memory for requests that wait: asks [`crate::eviction`], and gives the orders.

use std::time::Duration;

use mgb_probe::wire::{Order, Reply};

use super::Broker;
use crate::broker::round::Round;
use crate::client::ClientId;
use crate::eviction::flexgpu::{self, GpuActivity};
use crate::eviction::latency::{self, EvictableMemory};
use crate::eviction::{self, EvictionRule, IdleProcess, Lack, Places};

/// For how long after the last of it has left a GPU what is free there is kept for the latency program that
/// it left for: the round that hears of it grants it.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(500);

impl Broker {
    /// The rule by which idle memory is evicted, if it is.
    pub fn evicts_by(&self) -> Option<EvictionRule> {
        self.books.rules.evicts.filter(|_| !self.books.ledger.blind())
    }

    /// A client says that it has carried an order out.
    pub(super) fn obeyed(&mut self, client: ClientId, number: u64, freed: u64, now: Duration) -> Reply {
        self.move_is_over(client, number);
        let is_suspended = self.books.is_suspended(client);
        let counts = self.history.counts_mut();
        self.orders
            .obeyed(client, number, freed, is_suspended, counts, now);
        Reply::Done
    }

    /// After a round: orders memory off GPUs for which requests wait, for latency programs first. `lacks`:
    /// what they lack, if that is known.
    pub(super) fn evict_idle(&mut self, lacks: Option<Vec<Lack>>, round: &Round<'_>) {
        self.give_up_orders(round.now);
        let (Some(mut host), Some(rule)) = (round.host_room(&self.books), self.books.rules.evicts) else {
            return;
        };
        if self.queue.pending.is_empty() || self.books.ledger.blind() {
            return;
        }
        let idle = round.idle(&self.books, &self.queue, &self.orders);
        let mut idle = self.accounts.that_may_swap(&self.books.clients, idle);
        let lacks = |broker: &Broker| lacks.unwrap_or_else(|| round.lacks(&broker.books, &broker.queue));
        let mut lacks = if round.has_latency() {
            let mut lacks = lacks(self);
            // Beyond a quota a latency program is as any other.
            for lack in &mut lacks {
                let mut beyond = self.accounts.beyond_of(lack.client);
                lack.is_latency &= !beyond.any(|key| self.queue.has(key));
            }
            host -= self.evict_for_latency(&lacks, &idle, host, round);
            lacks
        } else if idle.is_empty() {
            return;
        } else {
            lacks(self)
        };
        lacks.retain(|lack| !lack.is_latency);
        idle.retain(|own| !own.is_latency);
        for own in self.choose_idle(rule, &lacks, &idle, host, round) {
            self.evict(&own, Order::Evict { gpu: own.gpu as u32 }, round.now);
        }
    }

    /// Orders memory off GPUs for latency programs. Returns how many bytes go to the host.
    fn evict_for_latency(
        &mut self,
        lacks: &[Lack],
        idle: &[IdleProcess],
        host: u64,
        round: &Round<'_>,
    ) -> u64 {
        if !lacks.iter().any(|lack| lack.is_latency) {
            return 0;
        }
        let at_work = round.batch_at_work(&self.books, &self.queue, &self.orders);
        let clients = &self.books.clients;
        let at_work: Vec<IdleProcess> = at_work
            .into_iter()
            .filter(|own| self.accounts.may_swap(clients.user(own.client), own.bytes))
            .collect();
        let (closed, speed) = (self.orders.leaving_from(), self.orders.speed());
        let there = EvictableMemory {
            idle,
            at_work: &at_work,
        };
        let mut bytes = 0;
        for way in latency::choose(lacks, there, closed, speed, host) {
            for own in &way.evicted {
                let gpu = own.gpu as u32;
                let order = if latency::is_at_work(own) {
                    Order::Suspend { gpu }
                } else {
                    Order::Evict { gpu }
                };
                if self.evict(own, order, round.now) {
                    bytes += own.bytes;
                    let until = round.now + CLAIM_TIMEOUT;
                    self.reserve.claims.keep_for(own.gpu, way.lack.client, until);
                }
            }
        }
        bytes
    }

    /// Orders the memory of a process off a GPU. False: what was ordered before it was the last that its user
    /// may have in the host.
    fn evict(&mut self, own: &IdleProcess, order: Order, now: Duration) -> bool {
        let uid = self.books.clients.user(own.client);
        if !self.accounts.may_swap(uid, own.bytes) {
            return false;
        }
        tracing::info!(
            client = own.client,
            gpu = own.gpu,
            idle_ms = own.idle.as_millis() as u64,
            ?order,
            "others wait for its memory"
        );
        self.give_order(own.client, order, own.bytes, now);
        true
    }

    /// Drops what is kept for latency programs that do not wait any more, or for which no memory is about to
    /// leave.
    pub(super) fn drop_latency_claims(&mut self, round: &Round<'_>) {
        let leaving = self.orders.leaving_from();
        let pending = &self.queue.pending;
        let waits = |gpu: usize, client| pending.of(client).any(|waiting| waiting.gpus.contains(gpu));
        let until = round.now + CLAIM_TIMEOUT;
        let claims = &mut self.reserve.claims;
        claims.retain_latency(|gpu, client, until| {
            waits(gpu, client) && round.is_latency(client) && (leaving.contains(gpu) || round.now < until)
        });
        claims.renew_latency(leaving, until);
    }

    fn choose_idle(
        &self,
        rule: EvictionRule,
        lacks: &[Lack],
        idle: &[IdleProcess],
        host: u64,
        round: &Round<'_>,
    ) -> Vec<IdleProcess> {
        let (closed, speed) = (self.orders.leaving_from(), self.orders.speed());
        let gpus = self.books.ledger.gpus();
        match rule {
            EvictionRule::Pays => {
                let work = |gpu: usize| round.snapshot.lasting_work(gpu);
                let places = Places {
                    closed,
                    work: (0..gpus.len()).map(work).collect(),
                    host,
                };
                eviction::choose(lacks, idle, &places, speed)
            }
            EvictionRule::FlexGpu => {
                let max_warps: Vec<u64> = gpus.iter().map(|info| info.max_warps).collect();
                let seen = GpuActivity {
                    idle,
                    busy: &round.busy(),
                    max_warps: &max_warps,
                };
                flexgpu::choose(lacks, &seen, closed, speed, host)
            }
        }
    }

    /// Orders a client to bring so many bytes to the host, or elsewhere.
    pub(super) fn give_order(&mut self, client: ClientId, order: Order, bytes: u64, now: Duration) {
        let clients = &self.books.clients;
        let is_given = self.orders.give(clients, client, order, bytes, now);
        if is_given && !matches!(order, Order::Move { .. }) {
            self.accounts.count_swap(clients.user(client), bytes);
        }
    }

    /// Who has not obeyed for long is passed over from then on.
    pub(super) fn give_up_orders(&mut self, now: Duration) {
        let counts = self.history.counts_mut();
        self.orders.give_up_late(&self.books.clients, counts, now);
    }
}
