//! Errors after which the process can use its GPU no more, and a line about them as the process ends.
//!
//! Under MPS a fault of one program ends the contexts of every program on its GPU. A program that checks no
//! call goes on with whatever its memory holds, and exits with 0, although it may have done nothing wrong. So
//! lazyrt prints a line at the end of such a process, and `mgb batch` counts the job as failed
//! ([`GPU_FAILED`] is what it looks for). A program that resets the device has dealt with the error.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use mgb_probe::printed::GPU_FAILED;

use crate::code::Code;
use crate::session::{self, Mode};

/// The last sticky error, 0 for none.
static STICKY: AtomicU32 = AtomicU32::new(0);

/// Notes a native answer: a sticky one is kept.
pub fn note(code: Code) {
    if code.is_sticky() {
        STICKY.store(code.0, Ordering::Relaxed);
        report_at_exit();
    }
}

/// The sticky error that the process has had: ops that do not ask the runtime answer it as well.
pub fn sticky() -> Option<Code> {
    let code = Code(STICKY.load(Ordering::Relaxed));
    (!code.is_success()).then_some(code)
}

/// The device was reset.
pub fn clear() {
    STICKY.store(0, Ordering::Relaxed);
}

fn report_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this library, which stays loaded.
        unsafe { libc::atexit(report) };
    });
}

extern "C" fn report() {
    let (Some(code), Some(Mode::Mgb)) = (sticky(), session::decided()) else {
        return;
    };
    let others = if session::is_under_mps() {
        ". Under MPS a fault of any program ends all on its GPU: if this one did nothing wrong, run it again"
    } else {
        ""
    };
    let number = code.0;
    eprintln!("{GPU_FAILED} (CUDA error {number}): its results from then on are void{others}");
}
