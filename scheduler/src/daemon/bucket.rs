//! A token bucket: how often something may be done, and how often at once.

use std::time::Duration;

/// Fills again with time.
#[derive(Debug)]
pub(super) struct Bucket {
    left: u32,
    counted: Duration,
    most: u32,
    every: Duration,
}

impl Bucket {
    /// A full one: `most` at once, and one more `every` so long.
    pub(super) fn new(most: u32, every: Duration, now: Duration) -> Bucket {
        Bucket {
            left: most,
            counted: now,
            most,
            every,
        }
    }

    /// Whether it may be done once more.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let more = now.saturating_sub(self.counted).as_nanos() / self.every.as_nanos();
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(more).min(self.most);
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
        let (start, every) = (Duration::from_secs(9), Duration::from_millis(100));
        let mut bucket = Bucket::new(32, every, start);
        let mut taken = |now| (0..1000).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(start), 32);
        assert_eq!(taken(start + every / 2), 0);
        assert_eq!(taken(start + every * 10), 10);
        assert_eq!(taken(start + every * 11 + every / 2), 1);
        assert_eq!(taken(start + Duration::from_secs(1 << 40)), 32);
    }
}
