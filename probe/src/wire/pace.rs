//! How a client's launches are paced: what `mgbd` says of each GPU, for threads that are about to launch.
//!
//! A launch reads one word, which is 0 where nobody asks for anything. A *hold* keeps threads from launching
//! while others are to have the GPU. It is a request: a client obeys it for a bounded time, whatever `mgbd`
//! does (see `core::pace`), and one that ignores it gains until the hardware's own priorities stop it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sync;

/// The words of a client's pace.
#[repr(C, align(64))]
pub struct PaceWords {
    /// Bit n: launches on GPU n are held, or what is in flight there is bounded.
    paced: AtomicU64,
    /// Bit n: they are held.
    holds: AtomicU64,
    /// Changes each time `mgbd` says anew what is held: who is told nothing for long goes on.
    renewals: AtomicU64,
    /// Changes when a hold ends. Threads that are held sleep on it.
    ends: sync::AtomicU32,
    /// Written by the client: threads that sleep.
    sleepers: sync::AtomicU32,
    /// Written by the client: nanoseconds for which launches of its were held, all threads together.
    held_ns: AtomicU64,
    /// Written by the client: launches while they were paced.
    launched: AtomicU64,
    /// Not 0 once the process is gone: GPUs read it.
    gone: AtomicU64,
    reserved: AtomicU64,
}

impl PaceWords {
    /// Whether a launch on any GPU is to look further. One plain load.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.paced.load(Ordering::Relaxed) != 0
    }

    /// Whether launches on the GPU are held, or bounded.
    pub fn is_paced(&self, gpu: u32) -> bool {
        self.paced.load(Ordering::Acquire) & bit(gpu) != 0
    }

    /// Whether launches on the GPU are held now, and by which word of `mgbd`'s.
    pub fn hold(&self, gpu: u32) -> Option<u64> {
        let renewal = self.renewals.load(Ordering::Acquire);
        (self.holds.load(Ordering::Acquire) & bit(gpu) != 0).then_some(renewal)
    }

    /// Sleeps while the GPU is held, `limit` at most. It may also return early.
    pub fn sleep(&self, gpu: u32, limit: Duration) {
        let ends = self.ends.load(Ordering::Acquire);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if self.hold(gpu).is_some() {
            sync::wait(&self.ends, ends, limit);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// A thread was held for so long.
    pub fn note_held(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.held_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Something was launched on a GPU where launches are paced. Of two threads that say so at one moment one
    /// may go uncounted: an exact count would cost each launch an atomic read-modify-write.
    pub fn note_launch(&self) {
        let launched = self.launched.load(Ordering::Relaxed);
        self.launched.store(launched.wrapping_add(1), Ordering::Relaxed);
    }

    /// Launches so far on GPUs where they are paced, as the client says.
    pub fn launched(&self) -> u64 {
        self.launched.load(Ordering::Relaxed)
    }

    /// For how long the client says that launches of its were held.
    pub fn held(&self) -> Duration {
        Duration::from_nanos(self.held_ns.load(Ordering::Relaxed))
    }

    /// `mgbd` says on which GPUs launches are held, one bit each, and on which what is in flight is bounded.
    pub fn set(&self, holds: u64, bounds: u64) {
        let before = self.holds.load(Ordering::Relaxed);
        self.renewals.fetch_add(1, Ordering::Release);
        // Who reads `holds` for a bit of `paced` finds what belongs to it.
        self.holds.store(holds, Ordering::Release);
        self.paced.store(holds | bounds, Ordering::Release);
        if before & !holds != 0 {
            self.ends.fetch_add(1, Ordering::SeqCst);
            if self.sleepers.load(Ordering::SeqCst) != 0 {
                sync::wake(&self.ends);
            }
        }
    }

    /// `mgbd` says that the process is gone: what GPUs run of it in parts stops.
    pub fn say_gone(&self) {
        self.gone.store(1, Ordering::Release);
    }

    /// The word by which it does.
    pub fn gone(&self) -> &AtomicU64 {
        &self.gone
    }

    /// What `mgbd` said last: the GPUs where launches are held, and those where they are held or bounded.
    pub fn said(&self) -> (u64, u64) {
        (
            self.holds.load(Ordering::Relaxed),
            self.paced.load(Ordering::Relaxed),
        )
    }
}

fn bit(gpu: u32) -> u64 {
    1u64.checked_shl(gpu).unwrap_or(0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    fn words() -> PaceWords {
        PaceWords {
            paced: AtomicU64::new(0),
            holds: AtomicU64::new(0),
            renewals: AtomicU64::new(0),
            ends: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            held_ns: AtomicU64::new(0),
            launched: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
        }
    }

    #[test]
    fn a_sleeper_is_woken_when_its_hold_ends() {
        let words = words();
        assert!(!words.is_any() && words.hold(3).is_none());
        words.set(1 << 3, 1 << 5);
        assert!(words.is_any() && words.is_paced(3) && words.is_paced(5) && !words.is_paced(4));
        assert!(words.hold(3).is_some() && words.hold(5).is_none());
        let first = words.hold(3);
        words.set(1 << 3, 1 << 5);
        assert_ne!(words.hold(3), first);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while words.hold(3).is_some() {
                    words.sleep(3, Duration::from_secs(60));
                }
            });
            words.set(0, 1 << 5);
            sleeper.join().unwrap();
        });
        assert!(words.is_any() && !words.is_paced(3));
        // One that is not held does not sleep at all.
        words.sleep(3, Duration::from_secs(60));
    }

    #[test]
    fn no_gpu_beyond_the_word_is_held() {
        let words = words();
        words.set(u64::MAX, u64::MAX);
        assert!(words.hold(63).is_some() && words.hold(64).is_none() && !words.is_paced(64));
    }
}
