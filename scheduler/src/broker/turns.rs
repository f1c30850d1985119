//! Turns at the driver.
//!
//! To initialise the driver and to make a context are served one after another on the whole node, whichever
//! the GPU. Of 40 processes that start at once all go through every step together, so that the first is as
//! late as the last: on four H200s under MPS they are ready after 7.5 to 8.1 s. In turns of four the first is
//! ready after 0.8 s and the last after 6.8 s (two at once 0.4 and 6.7 s, one 0.3 and 7.2 s). Four and not
//! two, as other drivers may serve more at once.
//!
//! Where processes start all the time, those that are near to their GPU would pass one that only asks for the
//! number of GPUs again and again. So every fourth turn goes to whoever waits longest.
//!
//! A turn is advisory: a process that does not end it loses it after a while, and none waits longer than
//! [`PATIENCE`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::wire::Reply;

use super::answer::Answer;
use crate::client::ClientId;

/// How many have their turn at once.
const AT_ONCE: usize = 4;
/// Of so many turns one goes to whoever waits longest.
const FAIR: u32 = 4;
/// How long a turn counts, at most.
const LONGEST: Duration = Duration::from_secs(2);
/// How long to wait for one, at most.
const PATIENCE: Duration = Duration::from_secs(30);

/// The processes that have a turn, and those that wait for one.
#[derive(Debug, Default)]
pub(super) struct Turns {
    holders: BTreeMap<ClientId, Holder>,
    /// In the order in which they came.
    waiting: Vec<Waiter>,
    /// How many turns others than whoever waits longest have had in a row.
    passed: u32,
}

/// One process: its threads share its turn.
#[derive(Debug)]
struct Holder {
    since: Duration,
    threads: u32,
}

#[derive(Debug)]
struct Waiter {
    client: ClientId,
    cell: usize,
    makes_context: bool,
    since: Duration,
}

impl Turns {
    /// A client's thread wants a turn.
    pub(super) fn ask(&mut self, client: ClientId, cell: usize, makes_context: bool, now: Duration) {
        self.waiting.push(Waiter {
            client,
            cell,
            makes_context,
            since: now,
        });
    }

    /// The turn of one of the client's threads is over.
    pub(super) fn over(&mut self, client: ClientId) {
        if let Some(holder) = self.holders.get_mut(&client) {
            holder.threads -= 1;
            if holder.threads == 0 {
                self.holders.remove(&client);
            }
        }
    }

    /// The client is gone.
    pub(super) fn gone(&mut self, client: ClientId) {
        self.holders.remove(&client);
        self.waiting.retain(|waiter| waiter.client != client);
    }

    /// The next turns: first for processes that only lack their context, then for those that have a task
    /// already; but every fourth for whoever waits longest.
    pub(super) fn next(&mut self, now: Duration, has_task: impl Fn(ClientId) -> bool) -> Vec<Answer> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.holders
            .retain(|_, holder| !has_lasted(holder.since, LONGEST, now));
        // Stable: else as they came.
        self.waiting
            .sort_by_cached_key(|waiter| (!waiter.makes_context, !has_task(waiter.client)));
        let mut answers = Vec::new();
        while let Some(at) = self.first(now) {
            let waiter = self.waiting.remove(at);
            let is_oldest = self.waiting.iter().all(|other| other.since >= waiter.since);
            self.passed = if is_oldest { 0 } else { self.passed + 1 };
            let none = Holder {
                since: now,
                threads: 0,
            };
            let holder = self.holders.entry(waiter.client).or_insert(none);
            holder.threads = holder.threads.saturating_add(1);
            answers.push(Answer {
                client: waiter.client,
                cell: waiter.cell,
                reply: Reply::Done,
            });
        }
        answers
    }

    /// Whose turn it is now, by place among those that wait.
    fn first(&self, now: Duration) -> Option<usize> {
        let free = |waiter: &Waiter| {
            self.holders.contains_key(&waiter.client) || has_lasted(waiter.since, PATIENCE, now)
        };
        let at = self.waiting.iter().position(free);
        if at.is_some() || self.holders.len() >= AT_ONCE {
            return at;
        }
        if self.passed + 1 < FAIR {
            return (!self.waiting.is_empty()).then_some(0);
        }
        (0..self.waiting.len()).min_by_key(|&at| self.waiting[at].since)
    }

    /// How many processes wait.
    pub(super) fn waiting(&self) -> u32 {
        let clients: BTreeSet<ClientId> = self.waiting.iter().map(|waiter| waiter.client).collect();
        clients.len() as u32
    }

    /// The requests that wait, by client and cell.
    #[cfg(test)]
    pub(super) fn cells(&self) -> impl Iterator<Item = (ClientId, usize)> {
        self.waiting.iter().map(|waiter| (waiter.client, waiter.cell))
    }

    /// How long until a waiting process gets its turn by time alone.
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        let oldest = self.waiting.iter().map(|waiter| waiter.since).min()?;
        let turns = self.holders.values().map(|holder| holder.since + LONGEST);
        let next = turns.chain([oldest + PATIENCE]).min()?;
        Some(next.saturating_sub(now))
    }
}

fn has_lasted(since: Duration, most: Duration, now: Duration) -> bool {
    now.saturating_sub(since) >= most
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Duration = Duration::from_millis;

    fn clients(answers: &[Answer]) -> Vec<ClientId> {
        answers.iter().map(|answer| answer.client).collect()
    }

    /// Asks to initialise for each client, the first of them first.
    fn crowd(count: ClientId) -> Turns {
        let mut turns = Turns::default();
        for client in 1..=count {
            turns.ask(client, 7, false, AT(client));
        }
        turns
    }

    #[test]
    fn a_few_at_once_in_the_order_in_which_they_came() {
        let mut turns = crowd(6);
        assert_eq!(clients(&turns.next(AT(10), |_| false)), [1, 2, 3, 4]);
        assert!(turns.next(AT(10), |_| false).is_empty());
        turns.over(3);
        turns.over(99);
        assert_eq!(clients(&turns.next(AT(11), |_| false)), [5]);
        assert_eq!(turns.waiting(), 1);
        turns.gone(6);
        turns.gone(1);
        assert_eq!(turns.waiting(), 0);
        assert!(turns.next(AT(12), |_| false).is_empty());
        assert_eq!(turns.due(AT(12)), None);
    }

    #[test]
    fn who_is_nearer_to_its_gpu_goes_first() {
        let mut turns = crowd(7);
        assert_eq!(clients(&turns.next(AT(10), |_| false)), [1, 2, 3, 4]);
        turns.over(1);
        turns.over(2);
        turns.over(3);
        turns.ask(2, 0, true, AT(11));
        assert_eq!(clients(&turns.next(AT(12), |client| client == 6)), [2, 6, 5]);
    }

    #[test]
    fn threads_of_a_process_share_its_turn() {
        let mut turns = crowd(5);
        turns.next(AT(10), |_| false);
        turns.ask(1, 8, true, AT(11));
        let answers = turns.next(AT(11), |_| false);
        assert_eq!((answers[0].client, answers[0].cell, answers.len()), (1, 8, 1));
        turns.over(1);
        assert!(turns.next(AT(12), |_| false).is_empty());
        turns.over(1);
        assert_eq!(clients(&turns.next(AT(12), |_| false)), [5]);
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut turns = crowd(9);
        assert_eq!(turns.next(AT(0), |_| false).len(), AT_ONCE);
        // A process that does not end its turn loses it.
        assert_eq!(turns.due(AT(500)), Some(AT(1500)));
        assert!(turns.next(AT(1999), |_| false).is_empty());
        assert_eq!(clients(&turns.next(AT(2000), |_| false)), [5, 6, 7, 8]);
        // Nor does anybody wait longer than that.
        let last = PATIENCE + AT(9);
        let mut turns = crowd(9);
        for at in (0..=30).map(|second| AT(second * 1000)) {
            // Four others hold the turns, and renew them.
            turns.holders = (11..15)
                .map(|client| {
                    (
                        client,
                        Holder {
                            since: at,
                            threads: 1,
                        },
                    )
                })
                .collect();
            turns.waiting.retain(|waiter| waiter.client == 9);
            assert!(turns.next(at, |_| true).is_empty(), "{at:?}");
        }
        assert_eq!(turns.due(last - AT(1)), Some(AT(1)));
        assert_eq!(clients(&turns.next(last, |_| true)), [9]);
    }

    /// Programs with tasks start all the time, more than there are turns; one program only asks how many GPUs
    /// there are.
    #[test]
    fn a_process_without_a_task_is_not_passed_again_and_again() {
        let mut turns = Turns::default();
        for client in 100..140 {
            turns.ask(client, 0, true, AT(0));
        }
        turns.ask(1, 0, false, AT(1));
        let mut served = 0;
        for at in 1.. {
            assert!(at < 200, "passed by {served} others");
            let next = clients(&turns.next(AT(at), |client| client >= 100));
            if next.contains(&1) {
                break;
            }
            served += next.len();
            for client in next {
                turns.over(client);
                // The next one of the same kind comes.
                turns.ask(client + 1000, 0, true, AT(at));
            }
        }
        // Those before it in time have one turn in four, or more.
        assert!(served <= 4 * 40, "{served}");
    }
}
