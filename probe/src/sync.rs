//! The atomics of the channel's protocol and the futex on which its callers sleep: the machine's own, or,
//! built with `--cfg loom`, those of a model checker that plays every order in which threads can run (`make
//! loom`).

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64};

use std::time::Duration;

/// Sleeps while the word has this value, `patience` at most, until somebody wakes it. False: nobody did in
/// that time. It may also return early.
#[cfg(not(loom))]
pub fn wait(word: &AtomicU32, value: u32, patience: Duration) -> bool {
    use rustix::event::Timespec;
    use rustix::thread::futex;
    let patience = Timespec {
        tv_sec: patience.as_secs() as i64,
        tv_nsec: patience.subsec_nanos().into(),
    };
    // Not FUTEX_PRIVATE: the waker is another process.
    let slept = futex::wait(word, futex::Flags::empty(), value, Some(&patience));
    slept != Err(rustix::io::Errno::TIMEDOUT)
}

/// Wakes whoever sleeps on the word.
#[cfg(not(loom))]
pub fn wake(word: &AtomicU32) {
    use rustix::thread::futex;
    let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
}

#[cfg(loom)]
loom::lazy_static! {
    /// The kernel compares and queues under a lock that a waker takes as well. One queue for all words:
    /// sleepers may be woken early, which they must expect in any case.
    static ref QUEUE: (loom::sync::Mutex<()>, loom::sync::Condvar) = Default::default();
}

/// The model has no time: who is never woken sleeps for ever, and the model checker says so.
#[cfg(loom)]
pub fn wait(word: &AtomicU32, value: u32, _: Duration) -> bool {
    let queue = QUEUE.0.lock().unwrap();
    if word.load(std::sync::atomic::Ordering::SeqCst) == value {
        drop(QUEUE.1.wait(queue).unwrap());
    }
    true
}

/// Wakes whoever sleeps.
#[cfg(loom)]
pub fn wake(_: &AtomicU32) {
    let _queue = QUEUE.0.lock().unwrap();
    QUEUE.1.notify_all();
}
