//! Puts the ledger, the queue and what was seen into the words of [`crate::balance`].

use super::Round;
use crate::balance::{GpuLoad, Mover};
use crate::broker::accounts::Accounts;
use crate::broker::books::{Books, is_movable};
use crate::broker::orders::Orders;
use crate::broker::queue::RequestQueue;
use crate::ledger::{Colocation, TaskKey};

impl Round<'_> {
    /// The tasks that can be moved now.
    pub(in crate::broker) fn movers(
        &self,
        books: &Books,
        queue: &RequestQueue,
        accounts: &Accounts,
        orders: &Orders,
    ) -> Vec<Mover> {
        let ledger = &books.ledger;
        let mut movers = Vec::new();
        for (key, holding) in ledger.tasks().filter(|(_, holding)| is_movable(holding)) {
            let mut own = ledger.tasks_of(key.client);
            // What work a process has on a GPU is known, not that of each task: one of several moves only to
            // make room.
            let is_only = own.all(|(other, there)| other == key || there.gpu != holding.gpu);
            let agent = orders.free_agent(key.client, self.snapshot, self.now);
            if agent.is_none() || holding.reserved == 0 || queue.has(key) || ledger.arrival(key).is_some() {
                continue;
            }
            let uid = books.clients.user(key.client);
            let moved = orders.moves.of(key);
            let cost = |to: usize| {
                if holding.may_go.contains(to) && accounts.may_be_on(uid, to) {
                    cost_of_move(books, key, to)
                } else {
                    u64::MAX
                }
            };
            movers.push(Mover {
                key,
                gpu: holding.gpu,
                bytes: holding.reserved,
                work: if is_only {
                    let is_its = |client, gpu| (client, gpu) == (key.client, holding.gpu);
                    self.snapshot.work(|seen| is_its(seen.client, seen.gpu))
                } else {
                    0
                },
                stays: self.now.saturating_sub(holding.granted.max(moved.last)),
                times: moved.times,
                costs: (0..ledger.gpus().len()).map(cost).collect(),
            });
        }
        movers
    }

    /// The GPUs that tasks can be moved to.
    pub(in crate::broker) fn places(&self, books: &Books) -> Vec<GpuLoad> {
        let ledger = &books.ledger;
        let alone = Colocation::of(ledger);
        let place = |gpu: usize| GpuLoad {
            room: ledger.room_to_begin(&self.covered, gpu),
            work: self.snapshot.work(|seen| seen.gpu == gpu),
            closed: books.control.closed().contains(gpu)
                || !alone.on(gpu).alone.is_empty()
                || ledger.processes(gpu) >= books.rules.max_processes
                || ledger.arrivals().any(|(_, arrival)| arrival.gpu == gpu),
        };
        (0..ledger.gpus().len()).map(place).collect()
    }
}

/// Bytes that a task takes on another GPU; all there are if it cannot go there.
pub(in crate::broker) fn cost_of_move(books: &Books, key: TaskKey, to: usize) -> u64 {
    books.ledger.cost_of_arrival(key, to).unwrap_or(u64::MAX)
}
