//! Tasks that users and groups may have waiting (`waiting` in [`crate::quota`]): those that came last and are
//! too many are refused once it is known that they wait. Growth is not counted, since a program would fail in
//! the middle, and who waited already when the limit was lowered goes on waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::limited::Limited;

use super::Accounts;
use crate::broker::clients::Clients;
use crate::broker::queue::WaitingTask;
use crate::quota::{Beyond, Owner};

impl Accounts {
    /// Waiting tasks are counted from now on.
    pub(in crate::broker) fn count_waiting_from(&mut self, now: Duration) {
        self.counted_waiting = now;
    }

    /// Of the tasks that wait those that came since the last time, where more wait than may.
    pub(in crate::broker) fn beyond_waiting<W: Iterator<Item = WaitingTask>>(
        &mut self,
        clients: &Clients,
        all: impl Fn() -> W,
        now: Duration,
    ) -> Vec<(WaitingTask, Beyond)> {
        let before = std::mem::replace(&mut self.counted_waiting, now);
        // There is a round for each event: most of them bring nobody who could be refused.
        if self.waiting.is_empty() || all().all(|one| one.since < before) {
            return Vec::new();
        }
        let mut waits: Vec<WaitingTask> = all().collect();
        waits.sort_by_key(|one| one.since);
        let mut counts: BTreeMap<Owner, u64> = BTreeMap::new();
        let mut refused = Vec::new();
        for one in waits {
            let owners = self.limits(clients.user(one.client)).iter();
            let owners: Vec<Owner> = owners.map(|(owner, _)| *owner).collect();
            let beyond = owners.iter().find_map(|owner| {
                let wanted = counts.get(owner).copied().unwrap_or(0) + 1;
                let limit = *self.waiting.get(owner)?;
                let what = Limited::Waiting;
                (wanted > limit && one.since >= before).then_some(Beyond { what, wanted, limit })
            });
            match beyond {
                Some(beyond) => refused.push((one, beyond)),
                None => owners
                    .iter()
                    .for_each(|owner| *counts.entry(*owner).or_default() += 1),
            }
        }
        refused
    }
}
