//! Waiting awake for what mostly comes at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long to stay awake: longer than an answer takes on a core of its own, much shorter than a wait for
/// room.
const AWAKE_TIMEOUT: Duration = Duration::from_micros(30);
/// Most waits for which it is left out after it was in vain: 1, then 3, 7, ... while it stays so.
const MAX_SKIPPED: u32 = 127;

/// Somebody who waits again and again. Threads that share one may lose a count, which does no harm.
#[derive(Debug, Default)]
pub struct Spin {
    /// Waits that are to sleep at once.
    skip: AtomicU32,
    /// How many those were after the last vain one.
    skipped: AtomicU32,
}

impl Spin {
    /// Calls `is_there` until it says yes, for some ten microseconds at most, and not at all where that was
    /// in vain lately. False: it is time to sleep.
    pub fn until(&self, mut is_there: impl FnMut() -> bool) -> bool {
        let skip = self.skip.load(Ordering::Relaxed);
        if skip > 0 {
            self.skip.store(skip - 1, Ordering::Relaxed);
            return false;
        }
        let start = Instant::now();
        let came = loop {
            if is_there() {
                break true;
            }
            if start.elapsed() > AWAKE_TIMEOUT {
                break false;
            }
            std::hint::spin_loop();
        };
        let skipped = self.skipped.load(Ordering::Relaxed);
        let next = if came {
            0
        } else {
            (2 * skipped + 1).min(MAX_SKIPPED)
        };
        self.skipped.store(next, Ordering::Relaxed);
        self.skip.store(next, Ordering::Relaxed);
        came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_vain_is_left_out_longer_and_longer() {
        let spin = Spin::default();
        let mut looked = Vec::new();
        for wait in 0..300 {
            let mut looks = false;
            assert!(!spin.until(|| {
                looks = true;
                false
            }));
            if looks {
                looked.push(wait);
            }
        }
        assert_eq!(looked, [0, 2, 6, 14, 30, 62, 126, 254]);
        while !spin.until(|| true) {}
        assert!(spin.until(|| true), "it is worth it again");
    }
}
