//! How many descriptors are open, held against what clients account for: more are said in the log before
//! there are none left.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::daemon::deferred_close;

/// How often they are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// So many more than are accounted for are worth a line.
const MAX_EXCESS: usize = 256;
/// The part of all descriptors that may wait to be closed: one in so many.
const UNCLOSED_PART: usize = 4;

/// The count of descriptors.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// As many as there may be.
    limit: usize,
    /// When they are counted next.
    due: Duration,
    /// The excess that was last told of; 0: there is none.
    said: usize,
}

impl Descriptors {
    pub(crate) fn new(limit: usize) -> Descriptors {
        Descriptors {
            limit,
            due: Duration::ZERO,
            said: 0,
        }
    }

    /// Whether so many wait to be closed that none of the user's may come: for those the kernel might find no
    /// number, and close them in the loop. Users who have none there come last.
    pub(crate) fn are_scarce(&self, uid: u32) -> bool {
        let (unclosed, part) = (deferred_close::unclosed(), self.limit / UNCLOSED_PART);
        unclosed >= 2 * part || unclosed >= part && deferred_close::unclosed_of(uid) > 0
    }

    /// Counts them if it is time. `accounted`: what clients account for.
    pub(crate) fn count(&mut self, accounted: impl FnOnce() -> usize, now: Duration) {
        if now < self.due {
            return;
        }
        self.due = now + COUNT_INTERVAL;
        let accounted = accounted();
        let (unclosed, open) = (deferred_close::unclosed(), open_descriptors());
        // Kernels before 6.2 do not say how many are open.
        let excess = open.saturating_sub(accounted).max(unclosed);
        match self.is_news(excess) {
            None => {}
            Some(true) => {
                let (users, limit) = (deferred_close::stuck_users(), self.limit);
                tracing::warn!(
                    open,
                    accounted,
                    unclosed,
                    limit,
                    ?users,
                    "more descriptors are open than clients account for; what these users' clients sent cannot \
                     be closed"
                );
            }
            Some(false) => tracing::info!(open, "as many descriptors are open as clients account for"),
        }
    }

    /// What is to be said of an excess: it has doubled (true), or is over.
    fn is_news(&mut self, excess: usize) -> Option<bool> {
        if excess > MAX_EXCESS && excess >= 2 * self.said {
            self.said = excess;
            return Some(true);
        }
        let is_over = self.said > 0 && excess <= MAX_EXCESS / 2;
        is_over.then(|| {
            self.said = 0;
            false
        })
    }
}

/// How many descriptors are open, as the kernel counts them; 0: it does not.
#[allow(
    clippy::disallowed_methods,
    reason = "the kernel's own count, which waits for nobody"
)]
fn open_descriptors() -> usize {
    std::fs::metadata("/proc/self/fd").map_or(0, |folder| folder.size() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_doubling_is_said_once_and_the_end_of_it() {
        let mut descriptors = Descriptors::new(1 << 16);
        let said: Vec<Option<bool>> = [0, 200, 257, 300, 513, 514, 1000, 1028, 400, 128, 100, 300]
            .map(|excess| descriptors.is_news(excess))
            .into();
        let (up, down) = (Some(true), Some(false));
        assert_eq!(
            said,
            [None, None, up, None, None, up, None, up, None, down, None, up]
        );
    }

    #[test]
    fn the_kernel_counts_or_says_nothing() {
        let files: Vec<_> = (0..500)
            .map(|_| std::fs::File::open("/dev/null").unwrap())
            .collect();
        let open = open_descriptors();
        assert!(open == 0 || open >= files.len(), "{open}");
    }
}
