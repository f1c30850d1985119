//! When the broker goes through all that waits, and when only through what an event changes.
//!
//! A whole round looks for memory that could leave, for deadlocks and for work to even out. While requests
//! wait, each event would have one, and other programs' grants would wait for it. So whole rounds take a
//! two-hundredth of mgbd's time; between them only what came, or came free, is decided.

use std::time::Duration;

use crate::broker::Snapshot;
use crate::daemon::limits::{DutyCycle, WHOLE_ROUNDS};

/// The rounds while requests wait.
#[derive(Debug)]
pub(crate) struct Rounds {
    whole: DutyCycle,
    /// When the next whole one is due; zero where the last left nobody waiting.
    due: Duration,
    /// There was a brief one since the last whole one.
    owed: bool,
    /// The last snapshot taken while no request waited, less what was granted since, and its time.
    recent: Option<(Snapshot, Duration)>,
    /// What was seen for the last brief one, and when.
    seen: Option<(Snapshot, Duration)>,
}

impl Rounds {
    /// The next round is a whole one.
    pub(crate) fn new() -> Rounds {
        Rounds {
            whole: WHOLE_ROUNDS,
            due: Duration::ZERO,
            owed: false,
            recent: None,
            seen: None,
        }
    }

    /// The last snapshot taken while no request waited, and its time.
    pub(crate) fn take_recent(&mut self) -> Option<(Snapshot, Duration)> {
        self.recent.take()
    }

    /// No request waits, and this was seen then.
    pub(crate) fn set_recent(&mut self, snapshot: Snapshot, seen: Duration) {
        self.recent = Some((snapshot, seen));
    }

    /// Whether it is too early for a whole round.
    pub(crate) fn are_brief(&self, now: Duration) -> bool {
        now < self.due
    }

    /// What was seen for the last brief round, if that is younger than this.
    pub(crate) fn take_seen(&mut self, age: Duration, now: Duration) -> Option<(Snapshot, Duration)> {
        let is_young = |seen: &(Snapshot, Duration)| now.saturating_sub(seen.1) < age;
        self.seen.take().filter(is_young)
    }

    /// There was a brief one.
    pub(crate) fn was_brief(&mut self, snapshot: Snapshot, seen: Duration) {
        self.owed = true;
        self.seen = Some((snapshot, seen));
    }

    /// There was a whole one. `waiting`: it left requests waiting.
    pub(crate) fn was_whole(&mut self, length: Duration, ended: Duration, waiting: bool) {
        self.whole.worked(length);
        self.due = if waiting {
            ended + self.whole.pause()
        } else {
            Duration::ZERO
        };
        self.owed = false;
        self.seen = None;
    }

    /// How long until the whole round that is owed; `None`: none is.
    pub(crate) fn due_in(&self, now: Duration) -> Option<Duration> {
        self.owed.then(|| self.due.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_rounds_take_a_two_hundredth_and_come_each_fifty_milliseconds() {
        let us = Duration::from_micros;
        let at = |after: u64| us(1_000_000 + after);
        let mut rounds = Rounds::new();
        assert!(!rounds.are_brief(at(0)));
        rounds.was_whole(us(10), at(10), true);
        assert!(rounds.are_brief(at(2009)) && !rounds.are_brief(at(2010)));
        assert_eq!(rounds.due_in(at(100)), None);
        rounds.was_brief(Snapshot::default(), at(100));
        assert_eq!(rounds.due_in(at(100)), Some(Duration::from_micros(1910)));
        assert!(rounds.take_seen(Duration::from_micros(50), at(200)).is_none());
        rounds.was_whole(us(5_000), at(5_000), true);
        assert!(rounds.are_brief(at(54_999)) && !rounds.are_brief(at(55_000)));
        rounds.was_whole(us(5_000), at(65_000), false);
        assert!(!rounds.are_brief(at(65_000)));
    }
}
