//! Errors after which the process can use its GPU no more, until it resets the device. See [`void`] for the
//! line about them as the process ends.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use mgb_core::void;

use crate::code::Code;
use crate::session::{self, Mode};

/// The last sticky error, 0 for none.
static STICKY: AtomicU32 = AtomicU32::new(0);

/// Notes a native answer: a sticky one is kept.
pub fn note(code: Code) {
    if code.is_sticky() {
        STICKY.store(code.0, Ordering::Relaxed);
        void::note(code.0);
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
    void::context_ended();
}

/// A task begins, behind a reset if there was one.
pub fn began_anew() {
    void::context_began();
}

fn report_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this library, which stays loaded.
        unsafe { libc::atexit(report) };
    });
}

extern "C" fn report() {
    if session::decided() == Some(Mode::Mgb) {
        void::report(session::is_under_mps());
    }
}
