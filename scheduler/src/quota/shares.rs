//! The order in which the tasks of several users are served: each user's own tasks as the queue has them, and
//! among users always the one with the least.
//!
//! What a user has is its *dominant* part of the node: of the GPUs' memory or of the places for processes,
//! whichever is more, divided by the user's weight. Only what it has now counts, not what it had before: who
//! comes late has as good a claim as any other, and no better one. Each waiting task is ordered by what its
//! user would have if all of that user's tasks before it had begun. So many users get parts of the node in
//! proportion to their weights, as far as they ask for them, and what nobody else asks for is anybody's.
//!
//! A user whose tasks are large may find too little left again and again, while others with less than it come
//! and go. Where nothing of a user was granted for [`STARVED`] times the patience, its first task goes before
//! all others, and room gathers for it as for any task that has waited for long.

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_interface::Queue;

use crate::client::ClientId;
use crate::policies::{self, Waiter};

/// How many times the patience a user with a waiting task may be granted nothing.
pub const STARVED: u32 = 8;

/// A part of the node, in parts of a whole of this many.
pub const WHOLE: u64 = 1 << 30;

/// How a user stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The part of the node that it has; see [`WHOLE`].
    pub has: u64,
    /// The user's weight.
    pub weight: u32,
    /// When anything of it was granted last; `None`: never that is known.
    pub served: Option<Duration>,
}

impl Standing {
    fn weighs(&self, part: u64) -> u64 {
        // A whole node fits a thousand times into a hundredth of this.
        part.saturating_mul(1 << 16) / u64::from(self.weight.max(1))
    }
}

/// What waits, and by which rules.
pub struct ShareQueue<'a> {
    /// The requests, in order of arrival.
    pub waiters: &'a [Waiter],
    /// The order of each user's own tasks.
    pub queue: Queue,
    /// The time of the decision.
    pub now: Duration,
    /// How long the first may be passed by others.
    pub patience: Duration,
}

impl ShareQueue<'_> {
    /// The positions of the waiters in the order in which they are to be served. `user` says whose a client
    /// is, `asks` what part of the node a request is for.
    pub fn in_order(
        &self,
        users: &BTreeMap<u32, Standing>,
        user: impl Fn(ClientId) -> u32,
        asks: impl Fn(&Waiter) -> u64,
    ) -> Vec<usize> {
        let mut own: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, waiter) in self.waiters.iter().enumerate() {
            own.entry(user(waiter.client)).or_default().push(at);
        }
        let mut turns: Vec<(u64, usize, usize)> = Vec::with_capacity(self.waiters.len());
        for (uid, mut mine) in own {
            let standing = users.get(&uid).copied().unwrap_or(Standing {
                has: 0,
                weight: 1,
                served: None,
            });
            let starves = self.is_starved(&standing, &mine);
            mine.sort_by_key(|at| (self.own_turn(&self.waiters[*at]), *at));
            let mut would_have = standing.has;
            for (place, at) in mine.into_iter().enumerate() {
                let turn = if starves && place == 0 {
                    0
                } else {
                    standing.weighs(would_have).saturating_add(1)
                };
                turns.push((turn, at, place));
                would_have = would_have.saturating_add(asks(&self.waiters[at]));
            }
        }
        turns.sort_unstable();
        turns.into_iter().map(|(_, at, _)| at).collect()
    }

    fn is_starved(&self, standing: &Standing, mine: &[usize]) -> bool {
        let long = self.patience.saturating_mul(STARVED);
        let oldest = mine.iter().map(|at| self.waiters[*at].since).min();
        let since = oldest.max(standing.served);
        since.is_some_and(|since| self.now.saturating_sub(since) >= long)
    }

    /// Where a request is among those of its user: who has waited for long first, in order of arrival.
    fn own_turn(&self, waiter: &Waiter) -> (bool, u64) {
        let timeout = policies::turn_timeout(self.queue, self.patience);
        let aged = self.now.saturating_sub(waiter.since) >= timeout;
        let turn = policies::turn(self.queue, waiter, self.now).filter(|_| !aged);
        (!aged && turn.is_some(), turn.unwrap_or(0))
    }
}

/// Parts of a whole: what each wants, or an even part of what those leave who want less.
pub fn even_parts<K: Ord + Copy>(wanted: BTreeMap<K, usize>, whole: usize) -> BTreeMap<K, usize> {
    let mut order: Vec<(usize, K)> = wanted.into_iter().map(|(who, wanted)| (wanted, who)).collect();
    order.sort_unstable();
    let mut left = whole;
    let count = order.len();
    let part = |(at, (wanted, who)): (usize, (usize, K))| {
        let part = wanted.min(left / (count - at));
        left -= part;
        (who, part)
    };
    order.into_iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu_set::GpuSet;
    use crate::sms::TaskLaunch;

    fn waiter(client: ClientId, bytes: u64, since: u64) -> Waiter {
        Waiter {
            client,
            gpus: GpuSet::from_bits(1),
            contexts: GpuSet::EMPTY,
            alone: false,
            bytes,
            launch: TaskLaunch::of(&mgb_probe::Need::default()),
            since: Duration::from_secs(since),
            expected: Duration::MAX,
            deadline: None,
            priority: 0,
            gathers: None,
        }
    }

    fn order(waiters: &[Waiter], queue: Queue, now: u64, users: &[(u32, u64, u32, u64)]) -> Vec<usize> {
        let standing = |&(uid, has, weight, served)| {
            let served = Some(Duration::from_secs(served));
            (uid, Standing { has, weight, served })
        };
        let users = users.iter().map(standing).collect();
        let waiting = ShareQueue {
            waiters,
            queue,
            now: Duration::from_secs(now),
            patience: Duration::from_secs(30),
        };
        // Clients 1 to 9 are user 1's, 10 to 19 user 2's.
        waiting.in_order(&users, |client| 1 + client as u32 / 10, |waiter| waiter.bytes)
    }

    #[test]
    fn users_take_turns_however_many_tasks_each_has() {
        let mut waiters: Vec<Waiter> = (1..9).map(|client| waiter(client, 10, 0)).collect();
        waiters.push(waiter(10, 10, 1));
        waiters.push(waiter(11, 10, 1));
        let even = order(&waiters, Queue::Backfill, 2, &[(1, 0, 1, 0), (2, 0, 1, 0)]);
        assert_eq!(even[..5], [0, 8, 1, 9, 2]);
        let first_has_more = order(&waiters, Queue::Backfill, 2, &[(1, 15, 1, 0), (2, 0, 1, 0)]);
        assert_eq!(first_has_more[..4], [8, 9, 0, 1]);
        let weighs_more = order(&waiters, Queue::Backfill, 2, &[(1, 0, 3, 0), (2, 0, 1, 0)]);
        assert_eq!(weighs_more[..7], [0, 8, 1, 2, 3, 9, 4]);
    }

    #[test]
    fn the_queue_orders_what_a_user_has() {
        let waiters = [
            waiter(1, 5, 0),
            waiter(2, 9, 1),
            waiter(3, 7, 2),
            waiter(10, 6, 3),
        ];
        let users = [(1, 0, 1, 0), (2, 0, 1, 0)];
        assert_eq!(order(&waiters, Queue::Largest, 4, &users), [1, 3, 2, 0]);
        assert_eq!(order(&waiters, Queue::InOrder, 4, &users), [0, 3, 1, 2]);
        // Who has waited beyond the patience comes before larger ones of the same user.
        assert_eq!(order(&waiters, Queue::Largest, 31, &users), [0, 3, 1, 2]);
    }

    #[test]
    fn deadlines_order_what_a_user_has_and_pass_nobody_elses() {
        let due = |client, seconds| Waiter {
            deadline: Some(Duration::from_secs(seconds)),
            ..waiter(client, 5, 0)
        };
        let waiters = [
            waiter(1, 5, 0),
            due(2, 90),
            due(3, 60),
            due(10, 3),
            waiter(11, 5, 0),
        ];
        let users = [(1, 0, 1, 0), (2, 0, 1, 0)];
        // The fourth is lost by then.
        assert_eq!(order(&waiters, Queue::Edf, 40, &users), [2, 4, 1, 3, 0]);
        // Beyond the bound they are in order.
        assert_eq!(order(&waiters, Queue::Edf, 120, &users), [0, 3, 1, 4, 2]);
    }

    #[test]
    fn who_wants_less_than_an_even_part_leaves_the_rest() {
        let wanted = BTreeMap::from([(1, 5), (2, 50), (3, 60)]);
        assert_eq!(even_parts(wanted, 45), [(1, 5), (2, 20), (3, 20)].into());
        assert_eq!(even_parts(BTreeMap::<u32, usize>::new(), 45), [].into());
    }

    #[test]
    fn who_was_granted_nothing_for_long_comes_first() {
        let waiters = [waiter(1, 5, 0), waiter(2, 9, 0), waiter(10, 1, 239)];
        let users = |served| [(1, 1000, 1, served), (2, 0, 1, 239)];
        assert_eq!(order(&waiters, Queue::Backfill, 240, &users(1)), [2, 0, 1]);
        assert_eq!(order(&waiters, Queue::Backfill, 240, &users(0)), [0, 2, 1]);
    }
}
