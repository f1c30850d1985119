//! How long tasks have had their memory on a GPU: since they were granted, less the time in which all of it
//! was in the host.

use std::time::Duration;

use super::{Ledger, TaskKey};

impl Ledger {
    /// The task's memory is in the host, or is not, as of now.
    pub fn mark_away(&mut self, key: TaskKey, is_away: bool, now: Duration) {
        let Some(held) = self.tasks.get_mut(&key) else {
            return;
        };
        if held.away.since.is_some() == is_away {
            return;
        }
        held.away.before = held.away.until(now);
        held.away.since = is_away.then_some(now);
        self.touched.task(key);
    }

    /// It was said that the task has had more time than it may, or that does not hold any more.
    pub fn mark_told(&mut self, key: TaskKey, is_told: bool) {
        let Some(held) = self.tasks.get_mut(&key) else {
            return;
        };
        if held.away.is_told != is_told {
            held.away.is_told = is_told;
            self.touched.task(key);
        }
    }
}
