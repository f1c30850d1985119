//! Tasks that users and groups may have waiting (`waiting` in [`crate::quota`]): those that came last and are
//! too many are refused once it is known that they wait. Growth is not counted, since a program would fail in
//! the middle, and who waited already when the limit was lowered goes on waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::limited::Limited;
use mgb_probe::wire::Op;

use super::quota::over;
use super::{Answer, Broker};
use crate::client::ClientId;
use crate::quota::{Beyond, Owner};

/// A task that waits to begin.
#[derive(Clone, Copy, Debug)]
struct Waits {
    client: ClientId,
    cell: usize,
    since: Duration,
}

impl Broker {
    /// After a round: refuses tasks that came since the last time and wait, where more wait than may.
    pub fn refuse_beyond_waiting(&mut self, now: Duration) -> Vec<Answer> {
        let before = std::mem::replace(&mut self.accounts.counted_waiting, now);
        // There is a round for each event: most of them bring nobody who could be refused.
        if self.accounts.waiting.is_empty() || self.all_that_wait_to_begin().all(|one| one.since < before) {
            return Vec::new();
        }
        let mut waits: Vec<Waits> = self.all_that_wait_to_begin().collect();
        waits.sort_by_key(|one| one.since);
        let mut counts: BTreeMap<Owner, u64> = BTreeMap::new();
        let mut answers = Vec::new();
        for one in waits {
            let owners = self.accounts.limits(self.user(one.client)).iter();
            let owners: Vec<Owner> = owners.map(|(owner, _)| *owner).collect();
            let beyond = owners.iter().find_map(|owner| {
                let wanted = counts.get(owner).copied().unwrap_or(0) + 1;
                let limit = *self.accounts.waiting.get(owner)?;
                let what = Limited::Waiting;
                (wanted > limit && one.since >= before).then_some(Beyond { what, wanted, limit })
            });
            match beyond {
                Some(beyond) => answers.push(self.refuse_to_wait(one, beyond)),
                None => owners
                    .iter()
                    .for_each(|owner| *counts.entry(*owner).or_default() += 1),
            }
        }
        answers
    }

    fn all_that_wait_to_begin(&self) -> impl Iterator<Item = Waits> {
        let queued = self.queue.iter().filter(|waiting| !waiting.grows());
        let queued = queued.map(|waiting| (waiting.client, waiting.cell, waiting.since));
        let held = self.held.iter().filter(|held| held.request.op == Op::Begin);
        let held = held.map(|held| (held.client, held.cell, held.since));
        let followers = self.jobs.followers().iter();
        let followers = followers.map(|follower| (follower.client, follower.cell, follower.since));
        let all = queued.chain(held).chain(followers);
        all.map(|(client, cell, since)| Waits { client, cell, since })
    }

    fn refuse_to_wait(&mut self, one: Waits, beyond: Beyond) -> Answer {
        let Waits { client, cell, .. } = one;
        tracing::info!(
            client,
            limit = beyond.limit,
            "as many tasks of its user wait as may: refused"
        );
        self.queue.remove(client, cell);
        self.held
            .retain(|held| (held.client, held.cell) != (client, cell));
        self.jobs.drop_follower(client, cell);
        self.counts.refused += 1;
        Answer {
            client,
            cell,
            reply: over(beyond),
        }
    }
}
