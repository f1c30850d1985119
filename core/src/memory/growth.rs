//! Asking mgbd for more room: what to do after each of its answers.

use std::thread;
use std::time::Duration;

use mgb_probe::{Grown, Refusal};

/// How often in a row a task may be asked to make room for others and fail.
const MAX_FAILED_SWAPS: u32 = 8;
/// How often a request that fits is made again that mgbd took for too large.
const MAX_UNREAD: u32 = 20;
/// After an answer that may be another one soon. Twice as long after each failed swap.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The requests for one growth, and what came of them.
#[derive(Debug, Default)]
pub struct Growth {
    failed_swaps: u32,
    unread: u32,
}

impl Growth {
    /// Takes an answer of mgbd: the GPU on which the room is, or `None` where the caller is to look what it lacks
    /// by now, and to ask again if it does. `make_room` brings memory of the task to the host, at mgbd's request,
    /// and says whether any went. `fits`: whether the GPU can hold all that the task wants.
    ///
    /// # Errors
    /// Those for which another request is of no use.
    pub fn after(
        &mut self,
        answer: Result<Grown, Refusal>,
        fits: bool,
        make_room: impl FnOnce() -> bool,
    ) -> Result<Option<u32>, Refusal> {
        let pause = match answer {
            Ok(Grown::Granted { gpu, .. }) => return Ok(Some(gpu)),
            Err(Refusal::Withdrawn) => None,
            Ok(Grown::SwapOut) if make_room() => {
                self.failed_swaps = 0;
                None
            }
            Ok(Grown::SwapOut) => Some(self.pause_after_failure().ok_or(Refusal::Deadlock)?),
            // What was given back just now, mgbd may not have read yet.
            Err(Refusal::NeverFits { .. }) if fits && self.unread < MAX_UNREAD => {
                self.unread += 1;
                Some(RETRY_INTERVAL)
            }
            Err(refusal) => return Err(refusal),
        };
        pause.into_iter().for_each(thread::sleep);
        Ok(None)
    }

    /// How long to wait after a swap that has failed. `None`: too many have.
    fn pause_after_failure(&mut self) -> Option<Duration> {
        let pause = RETRY_INTERVAL * (1 << self.failed_swaps);
        self.failed_swaps += 1;
        (self.failed_swaps <= MAX_FAILED_SWAPS).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn too_large() -> Result<Grown, Refusal> {
        Err(Refusal::NeverFits {
            wanted: 2,
            largest: 1,
        })
    }

    #[test]
    fn failed_swaps_back_off_until_there_were_too_many() {
        let mut growth = Growth::default();
        let pauses: Vec<_> = std::iter::from_fn(|| growth.pause_after_failure()).collect();
        assert_eq!(pauses.len(), MAX_FAILED_SWAPS as usize);
        assert!(pauses.windows(2).all(|pair| pair[1] == 2 * pair[0]));
        let refused = growth.after(Ok(Grown::SwapOut), true, || false);
        assert!(matches!(refused, Err(Refusal::Deadlock)));
        // Only failures in a row count.
        assert!(matches!(
            growth.after(Ok(Grown::SwapOut), true, || true),
            Ok(None)
        ));
        assert_eq!(growth.pause_after_failure(), Some(RETRY_INTERVAL));
    }

    #[test]
    fn what_fits_is_asked_for_again_some_times() {
        let mut growth = Growth::default();
        let never = || panic!("nobody asked for room");
        assert!(growth.after(too_large(), false, never).is_err());
        for _ in 0..MAX_UNREAD {
            assert!(matches!(growth.after(too_large(), true, never), Ok(None)));
        }
        assert!(growth.after(too_large(), true, never).is_err());
        let granted = Grown::Granted {
            reserved_bytes: 1,
            gpu: 3,
        };
        assert!(matches!(growth.after(Ok(granted), true, never), Ok(Some(3))));
        assert!(matches!(
            growth.after(Err(Refusal::Withdrawn), true, never),
            Ok(None)
        ));
        let ended = growth.after(Err(Refusal::Disconnected), true, never);
        assert!(matches!(ended, Err(Refusal::Disconnected)));
    }
}
