//! Errors after which the process can use its GPU no more, until it resets the device; after a fault of a
//! kernel, no GPU any more. See [`gpu_fault_report`] for the line about them as the process ends.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use mgb_core::gpu_fault_report;
use mgb_probe::wire::MAX_GPUS;

use crate::code::{Code, Own, fail};
use crate::session::{self, Mode};
use crate::thread;

/// The last sticky error of each of the program's devices, 0 for none.
static STICKY: [AtomicU32; MAX_GPUS] = [const { AtomicU32::new(0) }; MAX_GPUS];

/// The error that all of the program's devices are stuck in until the process ends, 0 for none.
static OF_PROCESS: AtomicU32 = AtomicU32::new(0);

/// The program's devices that would have a context natively, a bit each. What no context answers after a
/// fault, as after a reset, is another error than what one answers.
static USED: AtomicU64 = AtomicU64::new(1);

fn of_current() -> &'static AtomicU32 {
    &STICKY[thread::current_device()]
}

/// Notes a native answer: a sticky one is kept for the program's current device.
pub fn note(code: Code) {
    if code.is_sticky() {
        if code.is_of_process() {
            let _ = OF_PROCESS.compare_exchange(0, code.0, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            of_current().store(code.0, Ordering::Relaxed);
        }
        gpu_fault_report::note(code);
        report_at_exit();
    }
}

/// The sticky error that the program's current device answers: ops that do not ask the runtime answer it as
/// well.
pub fn sticky() -> Option<Code> {
    let own = Code(of_current().load(Ordering::Relaxed));
    let stuck = of_process().map(|code| {
        if is_used() {
            code
        } else {
            Code::DEVICES_UNAVAILABLE
        }
    });
    if own.is_success() { stuck } else { Some(own) }
}

/// The error after which no GPU works in this process any more, nor ever will.
pub fn of_process() -> Option<Code> {
    let code = Code(OF_PROCESS.load(Ordering::Relaxed));
    (!code.is_success()).then_some(code)
}

/// The program chose its current device, which makes a context natively.
///
/// # Errors
/// `cudaErrorDevicesUnavailable` where there can be no new one after a fault.
pub fn choose() -> Result<(), Own> {
    if is_used() {
        return Ok(());
    }
    if of_process().is_some() {
        return fail(Code::DEVICES_UNAVAILABLE);
    }
    USED.fetch_or(bit_of_current(), Ordering::Relaxed);
    Ok(())
}

fn is_used() -> bool {
    USED.load(Ordering::Relaxed) & bit_of_current() != 0
}

fn bit_of_current() -> u64 {
    1 << (thread::current_device() % MAX_GPUS)
}

/// Fails with the sticky error of the program's current device, if it has had one.
pub fn check() -> Result<(), Own> {
    sticky().map_or(Ok(()), fail)
}

/// The program's current device was reset.
pub fn clear() {
    of_current().store(0, Ordering::Relaxed);
    if of_process().is_some() {
        USED.fetch_and(!bit_of_current(), Ordering::Relaxed);
    }
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
