//! How many connections are taken: a program that connects without end must not keep the loop from those who
//! are clients already.

use std::time::Duration;

/// Connections that are taken at once, after a while with fewer: a batch of programs that start together.
const BURST: u32 = 256;
/// From one to the next when there are more. To take one and turn it away costs 30 to 100 us, which the
/// clients wait for.
const EVERY: Duration = Duration::from_millis(1);

/// What is left of them.
#[derive(Debug)]
pub(super) struct Doors {
    left: u32,
    counted: Duration,
    /// Nobody is let in until then.
    closed_until: Option<Duration>,
}

impl Doors {
    pub(super) fn new(now: Duration) -> Doors {
        Doors {
            left: BURST,
            counted: now,
            closed_until: None,
        }
    }

    /// Lets nobody in for a moment.
    pub(super) fn close(&mut self, now: Duration) {
        self.closed_until = Some(now + EVERY);
    }

    /// Whether they were closed and are open from now on.
    pub(super) fn open(&mut self, now: Duration) -> bool {
        self.closed_until.take_if(|until| now >= *until).is_some()
    }

    /// How long they are still closed; `None`: they are open.
    pub(super) fn opens_in(&self, now: Duration) -> Option<Duration> {
        Some(self.closed_until?.saturating_sub(now))
    }

    /// Whether one may come in.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let more = now.saturating_sub(self.counted).as_nanos() / EVERY.as_nanos();
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(BURST);
            self.left = self.left.saturating_add(more).min(BURST);
            self.counted = now;
        }
        let may = self.left > 0;
        self.left -= u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_at_once_and_then_one_after_the_other() {
        let start = Duration::from_secs(9);
        let mut doors = Doors::new(start);
        assert_eq!((0..1000).filter(|_| doors.take(start)).count(), BURST as usize);
        let soon = start + EVERY * 10;
        assert_eq!((0..1000).filter(|_| doors.take(soon)).count(), 10);
        let late = start + Duration::from_secs(1 << 40);
        assert_eq!((0..1000).filter(|_| doors.take(late)).count(), BURST as usize);
    }
}
