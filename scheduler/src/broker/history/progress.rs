//! How far a running task has come, by how long its process has had work on the GPU: not by its age, since a
//! task that is evicted or waits for others grows older, and is no nearer to its end.

use std::time::Duration;

use crate::broker::snapshot::WHOLE;

/// The work that a task has had, as seen from time to time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskProgress {
    /// How long it has had work, when it was seen last.
    worked: Duration,
    /// The age of the task when it was looked at.
    seen: Duration,
    /// How much of the time it had work then, in parts of [`WHOLE`].
    part: u32,
}

impl TaskProgress {
    /// Of a task that begins: it counts as busy until it is seen.
    pub(super) fn new() -> TaskProgress {
        TaskProgress {
            worked: Duration::ZERO,
            seen: Duration::ZERO,
            part: WHOLE,
        }
    }

    /// It was seen at that age to have work for this part of the time, of [`WHOLE`].
    pub(super) fn saw(&mut self, age: Duration, part: u32) {
        // What was seen is of the time before.
        self.part = part.min(WHOLE);
        (self.worked, self.seen) = (self.worked(age), age.max(self.seen));
    }

    /// How long it has had work at that age.
    pub(super) fn worked(&self, age: Duration) -> Duration {
        let since = age.saturating_sub(self.seen);
        self.worked.saturating_add(since * self.part / WHOLE)
    }

    /// How much of `lasts` is left at that age, for a task of a kind that had work for `whole` of it.
    pub(super) fn left(&self, lasts: Duration, whole: Duration, age: Duration) -> Duration {
        let left = 1.0 - self.worked(age).as_secs_f64() / whole.as_secs_f64();
        lasts.mul_f64(left.clamp(0.0, 1.0))
    }
}
