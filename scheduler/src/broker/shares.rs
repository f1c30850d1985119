//! The order of tasks that begin, where several users wait ([`crate::quota::shares`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Broker;
use crate::client::ClientId;
use crate::policies::Waiter;
use crate::quota::shares::{Standing, WHOLE, Waiting};

/// The requests to begin, as they are to be served.
pub(super) struct InOrder {
    pub(super) waiters: Vec<Waiter>,
    /// By their order here: their positions in the queue.
    pub(super) places: Vec<usize>,
}

impl Broker {
    /// The requests to begin in the order in which users are served. `None`: it is that of the queue.
    pub(super) fn in_order(&self, now: Duration) -> Option<InOrder> {
        if !self.has_several_users() {
            return None;
        }
        let waiters = self.queue.waiters();
        let users: BTreeSet<u32> = waiters.iter().map(|waiter| self.user(waiter.client)).collect();
        if users.len() < 2 {
            return None;
        }
        let waiting = Waiting {
            waiters,
            queue: self.rules.queue,
            now,
            patience: self.rules.patience,
        };
        let places = waiting.in_order(
            &self.standings(&users),
            |client| self.user(client),
            |waiter| self.part_asked(waiter),
        );
        Some(InOrder {
            waiters: places.iter().map(|at| waiters[*at]).collect(),
            places,
        })
    }

    fn standings(&self, users: &BTreeSet<u32>) -> BTreeMap<u32, Standing> {
        let mut has: BTreeMap<u32, (u64, u64)> = users.iter().map(|uid| (*uid, (0, 0))).collect();
        let mut add = |client: ClientId, bytes: u64, processes: u64| {
            if let Some(sum) = has.get_mut(&self.user(client)) {
                *sum = (sum.0.saturating_add(bytes), sum.1 + processes);
            }
        };
        for (key, held) in self.ledger.tasks() {
            let gpu = &self.ledger.gpus()[held.gpu];
            let has = if held.keeps_others_out() {
                gpu.usable_bytes
            } else {
                held.reserved
            };
            add(key.client, has, 0);
        }
        for (client, _, bytes) in self.ledger.contexts() {
            add(client, bytes, 1);
        }
        for (uid, amount) in self.accounts.reclaiming.values() {
            if let Some(sum) = has.get_mut(uid) {
                sum.0 = sum.0.saturating_add(amount.bytes);
            }
        }
        let standing = |(uid, (bytes, processes))| {
            let standing = Standing {
                has: self.part(bytes, processes),
                weight: self.accounts.weight(uid),
                served: self.accounts.served.get(&uid).copied(),
            };
            (uid, standing)
        };
        has.into_iter().map(standing).collect()
    }

    /// The part of the node that a request is for.
    fn part_asked(&self, waiter: &Waiter) -> u64 {
        let begins = waiter.contexts.is_empty();
        let context = self.ledger.gpus().first().map_or(0, |gpu| gpu.context_bytes);
        let whole = self.ledger.gpus().iter().map(|gpu| gpu.usable_bytes).max();
        let bytes = if waiter.alone {
            whole.unwrap_or(0)
        } else {
            waiter.bytes.saturating_add(if begins { context } else { 0 })
        };
        self.part(bytes, u64::from(begins))
    }

    /// What part of the GPUs' memory or of the places for processes that is, whichever is more.
    fn part(&self, bytes: u64, processes: u64) -> u64 {
        let gpus = self.ledger.gpus();
        let all: u64 = gpus.iter().map(|gpu| gpu.usable_bytes).sum();
        let places = gpus.len() as u64 * u64::from(self.rules.max_processes);
        let of = |part: u64, all: u64| {
            let part = u128::from(part) * u128::from(WHOLE) / u128::from(all.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        of(bytes, all).max(of(processes, places))
    }
}
