//! What mgbd knows of processes that have had their memory for longer than they may.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::broker::{Late, Times};
use crate::client::ClientId;
use crate::daemon::limits::{Limiter, USER_LOG_LINES};
use crate::daemon::monitor::ending::{EndingStep, Endings};

/// How often the tasks' times are looked at. While there are clients the loop is awake as often, to write the
/// view.
const TIME_INTERVAL: Duration = Duration::from_millis(500);

/// What is known of late processes.
pub(crate) struct LateProcesses {
    /// When tasks are looked at next.
    due: Duration,
    endings: Endings,
    /// Processes whose tasks are old enough that they keep no leases.
    without_leases: BTreeSet<ClientId>,
    /// Lines of the log, by user.
    lines: Limiter<u32>,
}

impl LateProcesses {
    /// No process is late.
    pub(crate) fn new() -> LateProcesses {
        LateProcesses {
            due: Duration::ZERO,
            endings: Endings::default(),
            without_leases: BTreeSet::new(),
            lines: Limiter::new(USER_LOG_LINES),
        }
    }

    /// Whether it is time to look at the tasks' times.
    pub(crate) fn is_due(&mut self, now: Duration) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = now + TIME_INTERVAL;
        }
        is_due
    }

    /// The tasks' times are these.
    pub(crate) fn looked(&mut self, times: Times) -> Vec<Late> {
        self.without_leases = times.without_leases;
        let ids: BTreeSet<ClientId> = times.late.iter().map(|one| one.client).collect();
        self.endings.retain(|id| ids.contains(&id));
        times.late
    }

    /// Whether a process keeps no leases, since its tasks are old enough.
    pub(crate) fn has_no_leases(&self, id: ClientId) -> bool {
        self.without_leases.contains(&id)
    }

    /// What is done next about a late process. `is_safe`: its end harms nobody else. `listens`: it can say why.
    pub(crate) fn step(
        &mut self,
        late: &Late,
        is_safe: bool,
        listens: bool,
        now: Duration,
    ) -> Option<EndingStep> {
        let step = self.endings.step(late.client, late.ends, is_safe, listens, now);
        step.map(|(step, _)| step)
    }

    /// Whether the log is to tell of a user's process; with it, how many it was not told of before.
    pub(crate) fn line(&mut self, uid: u32, now: Duration) -> Option<u32> {
        self.lines.take(uid, now)
    }
}
