//! When what waits is expected to begin and what runs to end, by what is known of how long tasks take. For
//! people, and for `mgb run`, which asks before it starts a program: no grant depends on it.
//!
//! As many tasks run at once as do now. Who waits begins, in the order of the queue, as the next of them
//! ends. So sizes are not looked at, nor what is evicted or moves: it is the delay that a queue of such
//! length has at such a rate (Little's law), and that is what LAX admits by.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use mgb_interface::Queue;
use mgb_probe::need::Need;
use mgb_probe::wire::{Reply, Request, STARTS};

use super::Broker;
use crate::broker::history::RunKind;
use crate::client::ClientId;
use crate::ledger::{Holding, TaskKey};
use crate::policies::{self, Waiter};
use crate::time_left::TimeLeft;

/// Most waiting requests that are looked at for one answer.
const MAX_AHEAD: usize = 1024;

/// The places that tasks run in, by when each is free.
struct Places(BinaryHeap<Reverse<Duration>>);

impl Places {
    /// The next task takes the place that is free first, for so long; when that is.
    fn take(&mut self, length: Duration) -> Duration {
        let Some(mut first) = self.0.peek_mut() else {
            return Duration::ZERO;
        };
        let free = first.0;
        first.0 = free.saturating_add(length);
        free
    }
}

impl Broker {
    /// `mgb run` asks when a program would end, or says that it starts it.
    pub(super) fn expect(&mut self, client: ClientId, request: &Request, now: Duration) -> Reply {
        let uid = self.books.clients.user(client);
        let kind = RunKind {
            uid,
            number: request.bytes,
        };
        let job = (uid, request.task);
        let lasts = self.history.run_lasted(&kind);
        let waits = self.waits_of_newcomer(&request.need, lasts, now);
        if request.flags & STARTS != 0 && request.task != 0 {
            let pid = self.books.clients.pid(client);
            self.history.run_starts(job, kind, pid, now);
        }
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Reply::Expected {
            waits_ns: nanos(waits),
            lasts_ns: lasts.map_or(u64::MAX, nanos),
        }
    }

    /// How long a program waits that comes now.
    fn waits_of_newcomer(&self, need: &Need, lasts: Option<Duration>, now: Duration) -> Duration {
        let (books, waiters) = (&self.books, self.queue.pending.waiters());
        let bytes = need.reserved_bytes();
        let is_there = |gpu: usize| bytes <= books.ledger.room(gpu);
        if waiters.is_empty() && (bytes == 0 || (0..books.ledger.gpus().len()).any(is_there)) {
            return Duration::ZERO;
        }
        let mean = self.history.mean().unwrap_or(Duration::ZERO);
        let own = Waiter {
            since: now,
            expected: lasts.unwrap_or(mean),
            deadline: Some(need.deadline_ns)
                .filter(|&within| within > 0)
                .map(|within| now.saturating_add(Duration::from_nanos(within))),
            bytes,
            ..Waiter::default()
        };
        let own_turn = self.turn_of(&own, now);
        let mut places = self.places(now);
        for (turn, at) in self.in_turn(now) {
            if turn <= own_turn {
                places.take(length(&waiters[at]));
            }
        }
        places.take(Duration::ZERO)
    }

    /// By position in the queue: how long until the request to begin is expected to end, where that is known.
    /// Nothing, where none has a deadline.
    pub(super) fn ends_of_waiters(&self, now: Duration) -> Vec<Option<Duration>> {
        let waiters = self.queue.pending.waiters();
        let mut ends = vec![None; waiters.len()];
        if waiters.iter().all(|waiter| waiter.deadline.is_none()) {
            return ends;
        }
        let mut places = self.places(now);
        for (_, at) in self.in_turn(now) {
            let length = length(&waiters[at]);
            let begins = places.take(length);
            let is_known = self.queue.pending.beginner(at).is_known;
            ends[at] = is_known.then(|| begins.saturating_add(length));
        }
        ends
    }

    /// How long until a running task is expected to end; `None`: nothing is known of it.
    pub(super) fn end_of(&self, key: TaskKey, held: &Holding, now: Duration) -> Option<Duration> {
        if !held.running {
            return None;
        }
        self.history.remains(key, now.saturating_sub(held.granted))
    }

    /// The time that a client has until the deadline that it is nearest to missing, where that decides who is
    /// held; `None`: it runs no task with a deadline of which anything is known.
    pub fn time_left(&self, client: ClientId, now: Duration) -> Option<TimeLeft> {
        if self.books.rules.queue != Queue::Laxity {
            return None;
        }
        let tasks = self.books.ledger.tasks_of(client);
        let left = tasks.filter_map(|(key, held)| self.time_left_of(key, held, now));
        left.min_by_key(|left| left.until_deadline.saturating_sub(left.remaining))
    }

    fn time_left_of(&self, key: TaskKey, held: &Holding, now: Duration) -> Option<TimeLeft> {
        Some(TimeLeft {
            until_deadline: held.deadline?.checked_sub(now)?,
            remaining: self.end_of(key, held, now)?,
        })
    }

    /// Places that tasks run in, as many as there are now: one that nothing is known of, or that takes longer
    /// than those before it, is taken to be half-way.
    fn places(&self, now: Duration) -> Places {
        let ledger = &self.books.ledger;
        let mut idle = ledger.all_gpus();
        let mut free = Vec::new();
        for (key, held) in ledger.tasks().filter(|(_, held)| held.running) {
            idle.remove(held.gpu);
            let age = now.saturating_sub(held.granted);
            let known = self.end_of(key, held, now).filter(|left| !left.is_zero());
            free.push(Reverse(known.unwrap_or(age)));
        }
        free.extend(idle.iter().map(|_| Reverse(Duration::ZERO)));
        Places(free.into())
    }

    /// The requests to begin as they are served, with their turns, by position.
    fn in_turn(&self, now: Duration) -> Vec<((bool, u64), usize)> {
        let waiters = self.queue.pending.waiters().iter().take(MAX_AHEAD);
        let turns = waiters.map(|waiter| self.turn_of(waiter, now));
        let mut turns: Vec<((bool, u64), usize)> = turns.zip(0..).collect();
        turns.sort_unstable();
        turns
    }

    /// What has waited too long goes first, then what has least of a turn.
    fn turn_of(&self, waiter: &Waiter, now: Duration) -> (bool, u64) {
        let rules = &self.books.rules;
        let timeout = policies::turn_timeout(rules.queue, rules.patience);
        let turn =
            policies::turn(rules.queue, waiter, now).filter(|_| now.saturating_sub(waiter.since) < timeout);
        (turn.is_some(), turn.unwrap_or(0))
    }
}

/// How long a task takes, as far as it is known.
fn length(waiter: &Waiter) -> Duration {
    if waiter.expected == Duration::MAX {
        Duration::ZERO
    } else {
        waiter.expected
    }
}
