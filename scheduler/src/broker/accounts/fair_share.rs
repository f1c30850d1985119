//! The order of tasks that begin, where several users wait ([`crate::quota::shares`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Accounts;
use crate::broker::books::Books;
use crate::client::ClientId;
use crate::policies::Waiter;
use crate::quota::shares::{ShareQueue, Standing, WHOLE};

/// The requests to begin, as they are to be served.
pub(in crate::broker) struct FairOrder {
    /// The requests in that order.
    pub(in crate::broker) waiters: Vec<Waiter>,
    /// By their order here: their positions in the queue.
    pub(in crate::broker) positions: Vec<usize>,
}

impl FairOrder {
    /// The order in which they came.
    pub(in crate::broker) fn of_queue(waiters: &[Waiter]) -> FairOrder {
        FairOrder {
            waiters: waiters.to_vec(),
            positions: (0..waiters.len()).collect(),
        }
    }

    /// Those of them that are meant.
    pub(in crate::broker) fn only(self, is_meant: impl Fn(&Waiter) -> bool) -> FairOrder {
        let all = self.waiters.into_iter().zip(self.positions);
        let (waiters, positions) = all.filter(|(waiter, _)| is_meant(waiter)).unzip();
        FairOrder { waiters, positions }
    }
}

impl Accounts {
    /// The requests to begin in the order in which users are served. `None`: it is that of the queue.
    pub(in crate::broker) fn fair_order(
        &self,
        books: &Books,
        waiters: &[Waiter],
        now: Duration,
    ) -> Option<FairOrder> {
        if !self.has_several {
            return None;
        }
        let user = |client| books.clients.user(client);
        let users: BTreeSet<u32> = waiters.iter().map(|waiter| user(waiter.client)).collect();
        if users.len() < 2 {
            return None;
        }
        let waiting = ShareQueue {
            waiters,
            queue: books.rules.queue,
            now,
            patience: books.rules.patience,
        };
        let positions = waiting.in_order(&self.standings(books, &users), user, |waiter| {
            part_asked(books, waiter)
        });
        Some(FairOrder {
            waiters: positions.iter().map(|at| waiters[*at]).collect(),
            positions,
        })
    }

    fn standings(&self, books: &Books, users: &BTreeSet<u32>) -> BTreeMap<u32, Standing> {
        let mut sums: BTreeMap<u32, (u64, u64)> = users.iter().map(|uid| (*uid, (0, 0))).collect();
        let mut add = |client: ClientId, bytes: u64, processes: u64| {
            if let Some(sum) = sums.get_mut(&books.clients.user(client)) {
                *sum = (sum.0.saturating_add(bytes), sum.1 + processes);
            }
        };
        for (key, holding) in books.ledger.tasks() {
            let gpu = &books.ledger.gpus()[holding.gpu];
            let bytes = if holding.keeps_others_out() {
                gpu.usable_bytes
            } else {
                holding.reserved
            };
            add(key.client, bytes, 0);
        }
        for (client, _, bytes) in books.ledger.contexts() {
            add(client, bytes, 1);
        }
        for (uid, amount) in self.reclaiming.values() {
            if let Some(sum) = sums.get_mut(uid) {
                sum.0 = sum.0.saturating_add(amount.bytes);
            }
        }
        let standing = |(uid, (bytes, processes))| {
            let standing = Standing {
                has: part(books, bytes, processes),
                weight: self.weight(uid),
                served: self.served.get(&uid).copied(),
            };
            (uid, standing)
        };
        sums.into_iter().map(standing).collect()
    }
}

/// The part of the node that a request is for.
fn part_asked(books: &Books, waiter: &Waiter) -> u64 {
    let gpus = books.ledger.gpus();
    let begins = waiter.contexts.is_empty();
    let context = gpus.first().map_or(0, |gpu| gpu.context_bytes);
    let whole = gpus.iter().map(|gpu| gpu.usable_bytes).max();
    let bytes = if waiter.alone {
        whole.unwrap_or(0)
    } else {
        waiter.bytes.saturating_add(if begins { context } else { 0 })
    };
    part(books, bytes, u64::from(begins))
}

/// What part of the GPUs' memory or of the places for processes that is, whichever is more.
fn part(books: &Books, bytes: u64, processes: u64) -> u64 {
    let gpus = books.ledger.gpus();
    let all: u64 = gpus.iter().map(|gpu| gpu.usable_bytes).sum();
    let places = gpus.len() as u64 * u64::from(books.rules.max_processes);
    let of = |part: u64, all: u64| {
        let part = u128::from(part) * u128::from(WHOLE) / u128::from(all.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    of(bytes, all).max(of(processes, places))
}
