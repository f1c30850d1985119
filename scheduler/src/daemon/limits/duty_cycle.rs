//! The part of the loop's time that costly work takes.

use std::time::Duration;

/// Work that is followed by a pause of so many times its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DutyCycle {
    /// The pause for each unit of work.
    factor: u32,
    /// The longest pause.
    longest: Duration,
    /// The pause after the last work.
    pause: Duration,
}

impl DutyCycle {
    /// Work that may be done at once.
    pub(crate) const fn new(factor: u32, longest: Duration) -> DutyCycle {
        DutyCycle {
            factor,
            longest,
            pause: Duration::ZERO,
        }
    }

    /// Work of this length was done.
    pub(crate) fn worked(&mut self, length: Duration) {
        self.pause = (length * self.factor).min(self.longest);
    }

    /// How long after the last work the next may begin.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_its_part_and_waits_no_longer_than_the_longest_pause() {
        let mut cycle = DutyCycle::new(200, Duration::from_millis(50));
        assert_eq!(cycle.pause(), Duration::ZERO);
        cycle.worked(Duration::from_micros(10));
        assert_eq!(cycle.pause(), Duration::from_micros(2000));
        cycle.worked(Duration::from_millis(5));
        assert_eq!(cycle.pause(), Duration::from_millis(50));
    }
}
