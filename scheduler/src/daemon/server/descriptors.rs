//! How many descriptors are open, held against what clients account for: more are said in the log before
//! there are none left.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::daemon::deferred_close;
use crate::daemon::server::Server;

/// How often they are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// What `mgbd` has for itself, and the files of a client whose socket is open.
const OWN: usize = 64;
const OF_CLIENT: usize = 4;

impl Server {
    /// Counts them if it is time.
    pub(crate) fn count_descriptors(&mut self, now: Duration) {
        if now < self.descriptors.due {
            return;
        }
        self.descriptors.due = now + COUNT_INTERVAL;
        let kept = self.clients.values().map(|client| client.kept.len());
        let kept = kept.sum::<usize>() + self.keeper.files();
        let accounted = OWN + self.guests.len() + OF_CLIENT * (self.clients.len() + self.guests.len()) + kept;
        let (unclosed, open) = (deferred_close::unclosed(), open_descriptors());
        // Kernels before 6.2 do not say how many are open.
        let excess = open.saturating_sub(accounted).max(unclosed);
        match self.descriptors.is_news(excess) {
            None => {}
            Some(true) => {
                let (users, limit) = (deferred_close::stuck_users(), self.descriptors.limit);
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
    fn the_kernel_counts_or_says_nothing() {
        let files: Vec<_> = (0..500)
            .map(|_| std::fs::File::open("/dev/null").unwrap())
            .collect();
        let open = open_descriptors();
        assert!(open == 0 || open >= files.len(), "{open}");
    }
}
