//! How many descriptors are open, held against what clients account for: more are said in the log before
//! there are none left.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::closer;
use super::server::Server;

/// How often they are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// So many more than are accounted for are worth a line.
const MAX_EXCESS: usize = 256;
/// What `mgbd` has for itself, the files of a client whose socket is open, and the parts of all descriptors
/// that may wait to be closed (one in so many).
const OWN: usize = 64;
const OF_CLIENT: usize = 4;
const UNCLOSED_PART: usize = 4;

/// The count of descriptors.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// As many as there may be.
    limit: usize,
    due: Duration,
    /// The excess that was last told of; 0: there is none.
    said: usize,
}

impl Descriptors {
    pub(super) fn new(limit: usize) -> Descriptors {
        Descriptors {
            limit,
            due: Duration::ZERO,
            said: 0,
        }
    }

    /// Whether so many wait to be closed that none of the user's may come: for those the kernel might find no
    /// number, and close them in the loop. Users who have none there come last.
    pub(super) fn are_scarce(&self, uid: u32) -> bool {
        let (unclosed, part) = (closer::unclosed(), self.limit / UNCLOSED_PART);
        unclosed >= 2 * part || unclosed >= part && closer::unclosed_of(uid) > 0
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

impl Server {
    /// Counts them if it is time.
    pub(super) fn count_descriptors(&mut self, now: Duration) {
        if now < self.descriptors.due {
            return;
        }
        self.descriptors.due = now + COUNT_INTERVAL;
        let kept = self.clients.values().map(|client| client.kept.len());
        let kept = kept.sum::<usize>() + self.keeper.files();
        let accounted = OWN + self.guests.len() + OF_CLIENT * (self.clients.len() + self.guests.len()) + kept;
        let (unclosed, open) = (closer::unclosed(), open_descriptors());
        // Kernels before 6.2 do not say how many are open.
        let excess = open.saturating_sub(accounted).max(unclosed);
        match self.descriptors.is_news(excess) {
            None => {}
            Some(true) => {
                let (users, limit) = (closer::stuck_users(), self.descriptors.limit);
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
