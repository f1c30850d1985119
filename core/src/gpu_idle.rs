//! Waiting for a GPU to have nothing left to do, with a limit.
//!
//! CUDA has no such call: a synchronisation ends when the work ends, and work may wait for what another
//! thread is yet to send. So a thread of MGB's own synchronises, and a caller waits for that thread
//! for a limited time. Where the synchronisation takes longer, that thread stays with the GPU, and the
//! next caller waits for the same thread.

use std::time::Instant;

use mgb_probe::wire::MAX_GPUS;
use parking_lot::{Condvar, Mutex};

use crate::own_thread;

/// The synchronisations of one GPU, one after another.
struct Synchronisations {
    /// How many synchronisations have begun, and how many are over.
    begun: u64,
    over: u64,
    /// Whether the last one that is over was a success.
    good: bool,
}

static LINES: [Mutex<Synchronisations>; MAX_GPUS] = [const {
    Mutex::new(Synchronisations {
        begun: 0,
        over: 0,
        good: false,
    })
}; MAX_GPUS];
static OVER: [Condvar; MAX_GPUS] = [const { Condvar::new() }; MAX_GPUS];

/// Whether everything that this process had given the GPU before the call is done by then: `settle` waits for
/// it, without a limit, and says whether the GPU did not fail. The caller holds no lock that `settle` needs.
pub fn wait(gpu: u32, until: Instant, settle: impl Fn() -> bool + Copy + Send + 'static) -> bool {
    let at = gpu as usize % MAX_GPUS;
    let mut line = LINES[at].lock();
    // A synchronisation that began before does not cover what was given since.
    let wanted = line.begun + 1;
    while line.over < wanted {
        if line.begun == line.over {
            let number = line.begun + 1;
            let started = own_thread::start("mgb-settle", move || {
                let good = settle();
                let mut line = LINES[at].lock();
                line.over = number;
                line.good = good;
                OVER[at].notify_all();
            });
            if started.is_none() {
                return false;
            }
            line.begun = number;
        }
        if OVER[at].wait_until(&mut line, until).timed_out() {
            return line.over >= wanted && line.good;
        }
    }
    line.good
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wait_ends_though_the_work_does_not() {
        static DONE: AtomicBool = AtomicBool::new(false);
        static TIMES: AtomicU32 = AtomicU32::new(0);
        let settle = || {
            TIMES.fetch_add(1, Ordering::SeqCst);
            while !DONE.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            true
        };
        let gpu = MAX_GPUS as u32 - 2;
        let wait = |length| super::wait(gpu, Instant::now() + length, settle);
        assert!(!wait(Duration::from_millis(20)));
        // The same thread is still there: no second one piles up.
        assert!(!wait(Duration::from_millis(20)));
        assert_eq!(TIMES.load(Ordering::SeqCst), 1);
        DONE.store(true, Ordering::SeqCst);
        assert!(wait(Duration::from_secs(60)));
        assert!(
            TIMES.load(Ordering::SeqCst) >= 2,
            "the first says nothing of later work"
        );
    }
}
