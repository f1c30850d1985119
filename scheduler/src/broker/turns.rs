//! Turns at the driver.
//!
//! To initialise the driver and to make a context are served one after another on the whole node, whichever
//! the GPU. Of 40 processes that start at once all go through every step together, so that the first is as
//! late as the last: on four H200s under MPS they are ready after 7.5 to 8.1 s. In turns of four the first is
//! ready after 0.8 s and the last after 6.8 s (two at once 0.4 and 6.7 s, one 0.3 and 7.2 s). Four and not
//! two, as other drivers may serve more at once.
//!
//! Where processes start all the time, those that are near to their GPU would pass one that only asks for the
//! number of GPUs again and again. So every fourth turn of a user goes to whoever waits longest.
//!
//! TurnUsers take turns: the next one is of whoever has fewest. Where there are several, one leaves a turn to the
//! others, however many processes of its wait.
//!
//! A turn is advisory: a process that does not end it loses it after a while, and none waits longer than
//! [`TURN_TIMEOUT`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::wire::Reply;

use super::answer::Answer;
use crate::client::ClientId;

/// How many have their turn at once.
const MAX_TURNS: usize = 4;
/// The same of one user where there are several.
const MAX_OF_USER: usize = MAX_TURNS - 1;
/// Of so many turns of a user one goes to whoever waits longest.
const FAIR_TURN: u32 = 4;
/// How long a turn counts, at most.
const MAX_TURN: Duration = Duration::from_secs(2);
/// How long to wait for one, at most.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);

/// The processes that have a turn, and those that wait for one.
#[derive(Debug, Default)]
pub(super) struct Turns {
    holders: BTreeMap<ClientId, TurnHolder>,
    /// In the order in which they came.
    waiting: Vec<TurnRequest>,
    /// How many turns others than whoever waits longest have had in a row, by user.
    passed: BTreeMap<u32, u32>,
}

/// One process: its threads share its turn.
#[derive(Debug)]
struct TurnHolder {
    since: Duration,
    threads: u32,
}

/// The users of the processes that have or want turns.
pub(super) struct TurnUsers<Of> {
    /// The user of the client that waits for a turn.
    pub(super) of: Of,
    /// Whether there may be others than those who wait.
    pub(super) are_several: bool,
}

#[derive(Debug)]
struct TurnRequest {
    client: ClientId,
    cell: usize,
    makes_context: bool,
    since: Duration,
}

impl Turns {
    /// A client's thread wants a turn.
    pub(super) fn ask(&mut self, client: ClientId, cell: usize, makes_context: bool, now: Duration) {
        self.waiting.push(TurnRequest {
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

    /// The client is gone: it has no turn and waits for none.
    pub(super) fn gone(&mut self, client: ClientId) {
        self.holders.remove(&client);
        self.waiting.retain(|waiter| waiter.client != client);
    }

    /// The next turns. Of a user's processes first for those that only lack their context, then for those
    /// that have a task already; but every fourth for whoever waits longest.
    pub(super) fn next<Of: Fn(ClientId) -> u32>(
        &mut self,
        now: Duration,
        has_task: impl Fn(ClientId) -> bool,
        users: &TurnUsers<Of>,
    ) -> Vec<Answer> {
        if self.waiting.is_empty() {
            self.passed.clear();
            return Vec::new();
        }
        self.holders
            .retain(|_, holder| !has_lasted(holder.since, MAX_TURN, now));
        // Stable: else as they came.
        self.waiting
            .sort_by_cached_key(|waiter| (!waiter.makes_context, !has_task(waiter.client)));
        let mut answers = Vec::new();
        while let Some(at) = self.first(now, users) {
            let waiter = self.waiting.remove(at);
            let user = (users.of)(waiter.client);
            let mut own = self
                .waiting
                .iter()
                .filter(|other| (users.of)(other.client) == user);
            let is_oldest = own.all(|other| other.since >= waiter.since);
            let passed = self.passed.entry(user).or_default();
            *passed = if is_oldest { 0 } else { *passed + 1 };
            let none = TurnHolder {
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
    fn first<Of: Fn(ClientId) -> u32>(&self, now: Duration, users: &TurnUsers<Of>) -> Option<usize> {
        let free = |waiter: &TurnRequest| {
            self.holders.contains_key(&waiter.client) || has_lasted(waiter.since, TURN_TIMEOUT, now)
        };
        let at = self.waiting.iter().position(free);
        if at.is_some() || self.holders.len() >= MAX_TURNS {
            return at;
        }
        let mut turns: BTreeMap<u32, usize> = BTreeMap::new();
        for client in self.holders.keys() {
            *turns.entry((users.of)(*client)).or_default() += 1;
        }
        let user_at = |at: usize| (users.of)(self.waiting[at].client);
        let turns_at = |at: usize| turns.get(&user_at(at)).copied().unwrap_or(0);
        // Of those who have as few the one that comes first.
        let first = (0..self.waiting.len()).min_by_key(|&at| turns_at(at))?;
        if users.are_several && turns_at(first) >= MAX_OF_USER {
            return None;
        }
        let user = user_at(first);
        if self.passed.get(&user).copied().unwrap_or(0) + 1 < FAIR_TURN {
            return Some(first);
        }
        let own = (0..self.waiting.len()).filter(|&at| user_at(at) == user);
        own.min_by_key(|&at| self.waiting[at].since)
    }

    /// How many processes wait for a turn.
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
        let turns = self.holders.values().map(|holder| holder.since + MAX_TURN);
        let next = turns.chain([oldest + TURN_TIMEOUT]).min()?;
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

    /// The next turns where there is one user.
    fn next(turns: &mut Turns, now: Duration, has_task: impl Fn(ClientId) -> bool) -> Vec<Answer> {
        let users = TurnUsers {
            of: |_| 0,
            are_several: false,
        };
        turns.next(now, has_task, &users)
    }

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
        assert_eq!(clients(&next(&mut turns, AT(10), |_| false)), [1, 2, 3, 4]);
        assert!(next(&mut turns, AT(10), |_| false).is_empty());
        turns.over(3);
        turns.over(99);
        assert_eq!(clients(&next(&mut turns, AT(11), |_| false)), [5]);
        assert_eq!(turns.waiting(), 1);
        turns.gone(6);
        turns.gone(1);
        assert_eq!(turns.waiting(), 0);
        assert!(next(&mut turns, AT(12), |_| false).is_empty());
        assert_eq!(turns.due(AT(12)), None);
    }

    #[test]
    fn who_is_nearer_to_its_gpu_goes_first() {
        let mut turns = crowd(7);
        assert_eq!(clients(&next(&mut turns, AT(10), |_| false)), [1, 2, 3, 4]);
        turns.over(1);
        turns.over(2);
        turns.over(3);
        turns.ask(2, 0, true, AT(11));
        assert_eq!(
            clients(&next(&mut turns, AT(12), |client| client == 6)),
            [2, 6, 5]
        );
    }

    #[test]
    fn threads_of_a_process_share_its_turn() {
        let mut turns = crowd(5);
        next(&mut turns, AT(10), |_| false);
        turns.ask(1, 8, true, AT(11));
        let answers = next(&mut turns, AT(11), |_| false);
        assert_eq!((answers[0].client, answers[0].cell, answers.len()), (1, 8, 1));
        turns.over(1);
        assert!(next(&mut turns, AT(12), |_| false).is_empty());
        turns.over(1);
        assert_eq!(clients(&next(&mut turns, AT(12), |_| false)), [5]);
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut turns = crowd(9);
        assert_eq!(next(&mut turns, AT(0), |_| false).len(), MAX_TURNS);
        // A process that does not end its turn loses it.
        assert_eq!(turns.due(AT(500)), Some(AT(1500)));
        assert!(next(&mut turns, AT(1999), |_| false).is_empty());
        assert_eq!(clients(&next(&mut turns, AT(2000), |_| false)), [5, 6, 7, 8]);
        // Nor does anybody wait longer than that.
        let last = TURN_TIMEOUT + AT(9);
        let mut turns = crowd(9);
        for at in (0..=30).map(|second| AT(second * 1000)) {
            // Four others hold the turns, and renew them.
            turns.holders = (11..15)
                .map(|client| {
                    (
                        client,
                        TurnHolder {
                            since: at,
                            threads: 1,
                        },
                    )
                })
                .collect();
            turns.waiting.retain(|waiter| waiter.client == 9);
            assert!(next(&mut turns, at, |_| true).is_empty(), "{at:?}");
        }
        assert_eq!(turns.due(last - AT(1)), Some(AT(1)));
        assert_eq!(clients(&next(&mut turns, last, |_| true)), [9]);
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
            let next = clients(&next(&mut turns, AT(at), |client| client >= 100));
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

    /// One user's processes ask by the hundred and never end a turn; others start a program now and then.
    #[test]
    fn a_user_with_many_processes_leaves_a_turn_to_others() {
        let users = TurnUsers {
            of: |client: ClientId| (client / 1000) as u32,
            are_several: true,
        };
        let mut turns = Turns::default();
        for client in 1000..1120 {
            turns.ask(client, 0, true, AT(0));
        }
        let next = |turns: &mut Turns, at| clients(&turns.next(AT(at), |_| true, &users));
        assert_eq!(next(&mut turns, 1), [1000, 1001, 1002]);
        for (at, client) in [(2, 2000), (3, 2001), (4, 3000)] {
            turns.ask(client, 0, false, AT(at));
            assert_eq!(next(&mut turns, at), [client], "at once");
            turns.over(client);
            assert!(next(&mut turns, at).is_empty());
        }
        // Of two the one with fewer turns is next, whoever waits longer.
        turns.ask(2002, 0, false, AT(10));
        turns.ask(3001, 0, false, AT(11));
        assert_eq!(next(&mut turns, 12), [2002]);
        turns.over(1000);
        assert_eq!(next(&mut turns, 13), [3001]);
        turns.over(3001);
        assert_eq!(next(&mut turns, 14), [1003]);
        // What was not ended is lost after a while, and then they are as before.
        let again = next(&mut turns, 2100);
        assert!(
            again.len() == 3 && again.iter().all(|client| *client < 2000),
            "{again:?}"
        );
    }
}
