//! Evicts idle memory for requests that wait: asks [`crate::eviction`], and gives the orders.

use std::time::Duration;

use mgb_probe::wire::{Order, Reply};

use super::Broker;
use crate::broker::round::Round;
use crate::client::ClientId;
use crate::eviction::flexgpu::{self, GpuActivity};
use crate::eviction::{self, EvictionRule, IdleProcess, Lack, Places};

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

    /// After a round: orders idle memory off GPUs for which requests wait. `lacks`: what they lack, if that
    /// is known.
    pub(super) fn evict_idle(&mut self, lacks: Option<Vec<Lack>>, round: &Round<'_>) {
        self.give_up_orders(round.now);
        let (Some(host), Some(rule)) = (round.host_room(&self.books), self.books.rules.evicts) else {
            return;
        };
        if self.queue.pending.is_empty() || self.books.ledger.blind() {
            return;
        }
        let idle = round.idle(&self.books, &self.queue, &self.orders);
        let idle = self.accounts.that_may_swap(&self.books.clients, idle);
        if idle.is_empty() {
            return;
        }
        let lacks = lacks.unwrap_or_else(|| round.lacks(&self.books, &self.queue));
        for own in self.choose_idle(rule, &lacks, &idle, host, round) {
            // What was ordered before it may have been the last that may go to the host.
            let uid = self.books.clients.user(own.client);
            if !self.accounts.may_swap(uid, own.bytes) {
                continue;
            }
            tracing::info!(
                client = own.client,
                gpu = own.gpu,
                idle_ms = own.idle.as_millis() as u64,
                "others wait for its idle memory"
            );
            let gpu = own.gpu as u32;
            self.give_order(own.client, Order::Evict { gpu }, own.bytes, round.now);
        }
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
                let work = |gpu: usize| round.snapshot.work(|seen| seen.gpu == gpu);
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
