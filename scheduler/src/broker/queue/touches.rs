//! Which thread last asked for a task, and when: who waits in one thread may still work with another.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::deadlock::{BUSY, QUIET};
use crate::ledger::{Holding, TaskKey};

/// The thread that last asked for a task, and when.
#[derive(Clone, Copy, Debug)]
struct Touch {
    thread: u32,
    at: Duration,
}

/// Of each task the thread that last asked for it, and when.
#[derive(Debug, Default)]
pub(in crate::broker) struct Touches(BTreeMap<TaskKey, Touch>);

impl Touches {
    /// A thread asked for the task.
    pub(in crate::broker) fn touch(&mut self, key: TaskKey, thread: u32, at: Duration) {
        self.0.insert(key, Touch { thread, at });
    }

    /// The task is over.
    pub(super) fn forget(&mut self, key: TaskKey) {
        self.0.remove(&key);
    }

    /// Forgets the tasks that do not stay.
    pub(in crate::broker) fn retain(&mut self, stays: impl Fn(&TaskKey) -> bool) {
        self.0.retain(|key, _| stays(key));
    }

    /// Whether a task of a process may go on by itself while these tasks wait, asked for by these threads.
    /// `is_busy`: its process has work on its GPU.
    pub(in crate::broker) fn can_go_on(
        &self,
        key: TaskKey,
        holding: &Holding,
        asking: &[(TaskKey, u32)],
        is_busy: bool,
        now: Duration,
    ) -> bool {
        let Some(touch) = self.0.get(&key).filter(|_| holding.running) else {
            return false;
        };
        let waits = asking
            .iter()
            .any(|(waiting, thread)| *waiting == key || *thread == touch.thread);
        let quiet = now.saturating_sub(touch.at);
        !waits && quiet < if is_busy { BUSY } else { QUIET }
    }
}
