//! How often a client may send the files that are to be kept of it. Each time they are all looked at, passed
//! on and the old ones closed: 64 of them cost as much as many grants.

use std::time::Duration;

/// Lists that may come at once: one for each context and library that a program loads as it starts.
const BURST: u32 = 32;
/// From one to the next when there are more.
const EVERY: Duration = Duration::from_millis(100);

/// What a client has left.
#[derive(Debug)]
pub(super) struct Lists {
    left: u32,
    counted: Duration,
}

impl Default for Lists {
    fn default() -> Lists {
        Lists {
            left: BURST,
            counted: Duration::ZERO,
        }
    }
}

impl Lists {
    /// Whether one more may come.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let more = now.saturating_sub(self.counted).as_nanos() / EVERY.as_nanos();
        if more > 0 {
            self.left = u32::try_from(more).map_or(BURST, |more| self.left.saturating_add(more).min(BURST));
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
    fn a_few_at_once_and_then_one_after_the_other() {
        let at = |ms: u64| Duration::from_millis(100_000 + ms);
        let mut lists = Lists::default();
        assert_eq!(
            (0..BURST + 5).filter(|_| lists.take(at(0))).count(),
            BURST as usize
        );
        assert!(lists.take(at(100)) && !lists.take(at(150)));
        assert_eq!((0..99).filter(|_| lists.take(at(60_000))).count(), BURST as usize);
    }
}
