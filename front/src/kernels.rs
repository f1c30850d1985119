//! How many kernels the program has launched on each GPU, and how large they were.
//!
//! Each thread counts for itself: right behind the write that rings the GPU's doorbell an atomic
//! read-modify-write would wait for it.

use std::sync::atomic::{AtomicU64, Ordering};

use mgb_core::work;
use mgb_probe::wire::MAX_GPUS;
use parking_lot::Mutex;

/// Threads of a warp.
const WARP: u32 = 32;

/// Kernels by GPU.
struct Counts([AtomicU64; MAX_GPUS]);

impl Counts {
    const fn new() -> Counts {
        Counts([const { AtomicU64::new(0) }; MAX_GPUS])
    }
}

/// The counts of all threads that ever launched. They stay when a thread ends, and its place is taken by
/// another one.
static ALL: Mutex<Vec<&'static Counts>> = Mutex::new(Vec::new());
static LEFT: Mutex<Vec<&'static Counts>> = Mutex::new(Vec::new());
/// Of threads that launch while they end.
static ENDING: Counts = Counts::new();

/// A thread's place.
struct ThreadCounts(&'static Counts);

impl ThreadCounts {
    fn take() -> ThreadCounts {
        let left = LEFT.lock().pop();
        ThreadCounts(left.unwrap_or_else(|| {
            let counts: &'static Counts = Box::leak(Box::new(Counts::new()));
            ALL.lock().push(counts);
            counts
        }))
    }
}

impl Drop for ThreadCounts {
    fn drop(&mut self) {
        LEFT.lock().push(self.0);
    }
}

thread_local! {
    static OWN: ThreadCounts = ThreadCounts::take();
}

/// The size of a launch, or of the largest of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warps(pub u64);

impl Warps {
    /// Of one kernel.
    pub fn of(grid: [u32; 3], block: [u32; 3]) -> Warps {
        let product = |sizes: [u32; 3]| {
            let sizes = sizes.into_iter().map(u64::from);
            sizes.fold(1, u64::saturating_mul)
        };
        Warps(product(grid).saturating_mul(product(block).div_ceil(u64::from(WARP))))
    }
}

/// So many kernels were launched on the GPU, the largest of which has so many warps.
#[inline]
pub fn launched(gpu: u32, count: u64, largest: Warps) {
    let at = gpu as usize % MAX_GPUS;
    let add = |own: &ThreadCounts| {
        let now = own.0.0[at].load(Ordering::Relaxed);
        own.0.0[at].store(now.wrapping_add(count), Ordering::Relaxed);
    };
    if OWN.try_with(add).is_err() {
        ENDING.0[at].fetch_add(count, Ordering::Relaxed);
    }
    work::note_warps(gpu, largest.0);
}

/// Kernels launched on the GPU so far. `None`: at this moment a thread adds its place.
pub fn on(gpu: u32) -> Option<u64> {
    let at = gpu as usize % MAX_GPUS;
    let all = ALL.try_lock()?;
    let of = |counts: &Counts| counts.0[at].load(Ordering::Relaxed);
    Some(all.iter().map(|counts| of(counts)).sum::<u64>() + of(&ENDING))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_threads_that_ended_stay_counted() {
        const GPU: u32 = 7;
        for _ in 0..3 {
            let threads: Vec<_> = (0..8)
                .map(|_| std::thread::spawn(|| (0..1000).for_each(|_| launched(GPU, 1, Warps(1)))))
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
        assert_eq!(on(GPU), Some(24_000));
        assert!(ALL.lock().len() <= 24);
        assert_eq!(on(GPU + 1), Some(0));
    }

    #[test]
    fn warps_are_whole_and_saturate() {
        assert_eq!(Warps::of([2, 3, 1], [33, 1, 1]), Warps(12));
        assert_eq!(Warps::of([u32::MAX; 3], [1024, 1, 1]), Warps(u64::MAX));
        assert_eq!(Warps::of([0, 1, 1], [32, 1, 1]), Warps(0));
    }
}
