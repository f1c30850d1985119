//! How often the log tells of what clients do wrong: who does it again and again must not fill a disk.

use std::time::Duration;

/// Lines in each [`WHILE`].
const MOST: u32 = 20;
const WHILE: Duration = Duration::from_secs(10);

/// Lines about clients.
#[derive(Debug, Default)]
pub(super) struct Ration {
    since: Duration,
    lines: u32,
}

impl Ration {
    /// Whether one more may be written; with it, how many were not since the last one.
    pub(super) fn take(&mut self, now: Duration) -> Option<u32> {
        let left_out = self.lines.saturating_sub(MOST);
        if now.saturating_sub(self.since) >= WHILE {
            (self.since, self.lines) = (now, 1);
            return Some(left_out);
        }
        self.lines = self.lines.saturating_add(1);
        (self.lines <= MOST).then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted() {
        let at = |seconds: u64| Duration::from_secs(100 + seconds);
        let mut ration = Ration::default();
        assert!((0..MOST).all(|_| ration.take(at(0)) == Some(0)));
        assert!((0..5).all(|_| ration.take(at(9)).is_none()));
        assert_eq!(ration.take(at(10)), Some(5));
        assert_eq!(ration.take(at(10)), Some(0));
    }
}
