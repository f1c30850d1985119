//! Errors after which the process can use its GPU no more, until it resets the device. See [`gpu_fault_report`] for the
//! line about them as the process ends.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use mgb_core::gpu_fault_report;
use mgb_probe::wire::MAX_GPUS;

use crate::code::{Code, Own, fail};
use crate::session::{self, Mode};
use crate::thread;

/// The last sticky error of each of the program's devices, 0 for none.
static STICKY: [AtomicU32; MAX_GPUS] = [const { AtomicU32::new(0) }; MAX_GPUS];

fn of_current() -> &'static AtomicU32 {
    &STICKY[thread::current_device()]
}

/// Notes a native answer: a sticky one is kept for the program's current device.
pub fn note(code: Code) {
    if code.is_sticky() {
        of_current().store(code.0, Ordering::Relaxed);
        gpu_fault_report::note(code);
        report_at_exit();
    }
}

/// The sticky error that the program's current device has had: ops that do not ask the runtime answer it as
/// well.
pub fn sticky() -> Option<Code> {
    let code = Code(of_current().load(Ordering::Relaxed));
    (!code.is_success()).then_some(code)
}

/// Fails with the sticky error of the program's current device, if it has had one.
pub fn check() -> Result<(), Own> {
    sticky().map_or(Ok(()), fail)
}

/// The program's current device was reset.
pub fn clear() {
    of_current().store(0, Ordering::Relaxed);
    gpu_fault_report::context_ended();
}

/// A task begins, behind a reset if there was one.
pub fn began_anew() {
    gpu_fault_report::context_began();
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
        gpu_fault_report::report(session::is_under_mps());
    }
}
