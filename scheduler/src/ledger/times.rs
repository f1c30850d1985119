//! How long tasks have had their memory on a GPU: since they were granted, less the time in which all of it
//! was in the host.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Holding, Ledger, TaskKey};

/// When a task had its memory in the host, and what was said of its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Away {
    /// For how long, before the last time.
    pub before: Duration,
    /// Since when it has it there now; `None`: it has not.
    pub since: Option<Duration>,
    /// It was said that the task has had more time than it may.
    pub is_told: bool,
}

impl Away {
    pub(super) fn is_none(&self) -> bool {
        *self == Away::default()
    }

    fn until(&self, now: Duration) -> Duration {
        let since = self.since.map(|since| now.saturating_sub(since));
        self.before.saturating_add(since.unwrap_or_default())
    }
}

impl Holding {
    /// How long it has had its memory on a GPU.
    pub fn time(&self, now: Duration) -> Duration {
        let age = now.saturating_sub(self.granted);
        age.saturating_sub(self.away.until(now))
    }
}

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
