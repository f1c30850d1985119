//! Streams that capture a graph, and waits for a GPU that would end the capture.
//!
//! CUDA ends every capture on a device that is synchronised meanwhile, whoever does so and in whatever mode.
//! A program that captures seems to be idle, and MGB waits for idle GPUs: so it asks here first. A capture
//! that begins waits for a synchronisation under way, but not for long: the work of the GPU may wait for what
//! comes after the capture, and once the driver waits it has looked for captures already.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mgb_abi::error::Code;
use parking_lot::{Condvar, Mutex};

/// How long a capture waits for a synchronisation, at most.
const CAPTURE_TIMEOUT: Duration = Duration::from_secs(1);
/// The first handle that is not a default stream's.
const FIRST_MADE: usize = 3;
/// What `cuStreamEndCapture` answers where no capture has ended.
const ENDS_NOTHING: [Code; 3] = [
    Code::INVALID_VALUE,
    Code::ILLEGAL_STATE,
    Code::STREAM_CAPTURE_WRONG_THREAD,
];

/// A stream: its handle, and for a thread's own default stream the thread.
#[derive(Clone, Copy, PartialEq, Eq)]
struct CapturingStream(usize, Option<u64>);

/// A number that no other thread of the process has had. Unlike the standard library's it can be asked for until
/// the very end of the thread.
fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

impl CapturingStream {
    fn of(handle: usize) -> CapturingStream {
        // The legacy stream never captures: whatever name a default stream has, it is the thread's own.
        if handle < FIRST_MADE {
            CapturingStream(0, Some(thread()))
        } else {
            CapturingStream(handle, None)
        }
    }
}

struct CaptureState {
    /// Those in which a capture was begun.
    capturing: Vec<CapturingStream>,
    /// Synchronisations under way.
    settling: u32,
}

static STATE: Mutex<CaptureState> = Mutex::new(CaptureState {
    capturing: Vec::new(),
    settling: 0,
});
static SETTLED: Condvar = Condvar::new();
/// How many streams capture: read without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Begins a capture in the stream by `call`, which answers CUDA's code.
pub fn begin(stream: usize, call: impl FnOnce() -> Code) -> Code {
    let until = Instant::now() + CAPTURE_TIMEOUT;
    let mut state = STATE.lock();
    while state.settling > 0 && !SETTLED.wait_until(&mut state, until).timed_out() {}
    let code = call();
    if code.is_success() {
        state.capturing.push(CapturingStream::of(stream));
        COUNT.store(state.capturing.len(), Ordering::Release);
    }
    code
}

/// The capture's end was asked for in the stream; `code` is CUDA's answer.
pub fn ended(stream: usize, code: Code) {
    if !ENDS_NOTHING.contains(&code) {
        forget(stream);
    }
}

/// The stream captures no longer: it is gone.
pub fn forget(stream: usize) {
    if any() {
        keep(|other| *other != CapturingStream::of(stream));
    }
}

/// No stream captures: all of them are gone.
pub fn forget_all() {
    if any() {
        keep(|_| false);
    }
}

fn keep(stays: impl Fn(&CapturingStream) -> bool) {
    let mut state = STATE.lock();
    state.capturing.retain(stays);
    COUNT.store(state.capturing.len(), Ordering::Release);
}

/// Whether any stream captures.
#[inline]
pub fn any() -> bool {
    COUNT.load(Ordering::Acquire) != 0
}

/// Waits for a GPU by `wait`; none where a stream captures, whose capture that would end.
pub fn settle<T>(wait: impl FnOnce() -> T) -> Option<T> {
    let held_off = {
        let mut state = STATE.lock();
        if !state.capturing.is_empty() {
            return None;
        }
        HeldOff::begin(&mut state)
    };
    let answer = wait();
    drop(held_off);
    Some(answer)
}

/// While it lives no capture begins, for a second at most.
#[must_use]
pub struct HeldOff(());

impl HeldOff {
    fn begin(state: &mut CaptureState) -> HeldOff {
        state.settling += 1;
        HeldOff(())
    }
}

impl Drop for HeldOff {
    fn drop(&mut self) {
        STATE.lock().settling -= 1;
        SETTLED.notify_all();
    }
}

/// Keeps captures from beginning. Those that have begun go on.
pub fn hold_off() -> HeldOff {
    HeldOff::begin(&mut STATE.lock())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn a_capture_and_a_wait_keep_out_of_each_others_way() {
        assert_eq!(settle(|| 7), Some(7));
        assert!(!any());
        assert_eq!(begin(16, || Code::INVALID_VALUE), Code::INVALID_VALUE);
        assert!(!any(), "it did not begin");
        assert_eq!(begin(16, || Code::SUCCESS), Code::SUCCESS);
        assert!(any() && settle(|| panic!("a stream captures")).is_none());
        ended(16, Code::STREAM_CAPTURE_WRONG_THREAD);
        ended(17, Code::SUCCESS);
        assert!(any(), "this ends nothing");
        ended(16, Code::STREAM_CAPTURE_UNJOINED);
        assert!(!any() && settle(|| ()).is_some());
        // A default stream is its thread's own.
        begin(2, || Code::SUCCESS);
        thread::spawn(|| ended(2, Code::SUCCESS))
            .join()
            .expect("it ended");
        assert!(any());
        ended(0, Code::SUCCESS);
        assert!(!any(), "its other name");
        begin(2, || Code::SUCCESS);
        forget_all();
        assert!(!any());

        let (go, gone) = channel::<()>();
        let (inside, entered) = channel();
        let waits = thread::spawn(move || {
            settle(|| {
                inside.send(()).expect("the test waits for it");
                gone.recv().is_ok()
            })
        });
        entered.recv().expect("it waits");
        let begun = thread::spawn(|| {
            let start = Instant::now();
            begin(16, || Code::SUCCESS);
            start.elapsed()
        });
        // It is not let in before its patience is over, and then it is, though the GPU still works.
        assert!(begun.join().expect("it begins") >= CAPTURE_TIMEOUT);
        assert!(any());
        go.send(()).expect("it still waits");
        assert_eq!(waits.join().expect("it ended"), Some(true));
        forget(16);
        assert!(!any());
    }
}
