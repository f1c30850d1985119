//! The stamps of the driver's samples, which are times of the clock on the wall: who asks for what came since
//! a moment counts from now, by a clock that nobody sets.

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

/// A clock that is behind by more than this was set back; by less, it is made to go slower for a while.
const MAX_DRIFT: Duration = Duration::from_millis(10);

/// What is known of the clock on the wall.
#[derive(Debug)]
pub(super) struct Stamps(Mutex<WallClock>);

#[derive(Debug, Default)]
struct WallClock {
    /// How far the clock on the wall was ahead of the monotonic one when that was last looked at.
    ahead: Duration,
    /// No sample from before the clock was last set back has a later stamp.
    set_back_at: Duration,
}

impl Stamps {
    pub(super) fn new() -> Stamps {
        let stamps = Stamps(Mutex::default());
        stamps.since(Duration::ZERO);
        stamps
    }

    /// The stamps of the moment that was so long ago, or of the last time that the clock was set back, and of
    /// now, in microseconds.
    pub(super) fn since(&self, ago: Duration) -> (u64, u64) {
        let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let monotonic = Duration::new(monotonic.tv_sec as u64, monotonic.tv_nsec as u32);
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let wall = wall.unwrap_or_default();
        let then = self.0.lock().since(ago, monotonic, wall);
        (then.as_micros() as u64, wall.as_micros() as u64)
    }
}

impl WallClock {
    fn since(&mut self, ago: Duration, monotonic: Duration, wall: Duration) -> Duration {
        let ahead = wall.saturating_sub(monotonic);
        if ahead + MAX_DRIFT < self.ahead {
            self.set_back_at = self.set_back_at.max(monotonic + self.ahead);
        }
        self.ahead = ahead;
        wall.saturating_sub(ago).max(self.set_back_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_clock_that_is_set_forth_shows_nothing_from_before() {
        let mut known = WallClock::default();
        known.since(seconds(0), seconds(10), seconds(1000));
        // At 1000 something ended, and after a second the clock was set to 5000.
        assert_eq!(known.since(seconds(2), seconds(12), seconds(5001)), seconds(4999));
        // What comes from now on counts, as soon as it would without.
        assert_eq!(known.since(seconds(3), seconds(13), seconds(5002)), seconds(4999));
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_show_what_was_before() {
        let mut known = WallClock::default();
        known.since(seconds(0), seconds(10), seconds(1000));
        // At 1000 something ended. Stamps of up to 1001 were given before the clock was set to 991.
        let then = known.since(seconds(2), seconds(12), seconds(992));
        assert!(then >= seconds(1001), "{then:?}");
        // Not either where it ended after the clock was set.
        let then = known.since(seconds(1), seconds(15), seconds(995));
        assert!(then >= seconds(1001), "{then:?}");
        assert_eq!(known.since(seconds(1), seconds(50), seconds(1030)), seconds(1029));
    }

    #[test]
    fn a_clock_that_goes_slower_is_none_that_is_set() {
        let mut known = WallClock::default();
        for step in 1..10_000u32 {
            let (slow, now) = (Duration::from_micros(25) * step, Duration::from_millis(50) * step);
            let then = known.since(seconds(1), seconds(10) + now, seconds(1000) + now - slow);
            assert_eq!(then, seconds(999) + now - slow);
        }
    }
}
