//! The end of the process: the work that it submitted to its GPUs is finished first.
//!
//! Under MPS a client that ends while its work is under way takes others with it, or has its memory kept
//! until mgbd sees that the work is done (see `keep`), which takes a while. So a program that simply ends
//! waits for its work, but not for long: a kernel that never ends must not keep a program from ending.

use std::sync::Once;
use std::sync::mpsc;
use std::time::Duration;

use mgb_core::work;

use crate::code::{Code, Own};
use crate::session::{self, Mode};
use crate::{device, fault};

/// How long to wait for a kernel that may never end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks to be called as the process ends, before the runtime and the driver take down what they have: they
/// ask for that as well, at the latest when they are given work of a kind for the first time. Called behind
/// such work.
#[inline]
pub fn watch(once: &'static Once) {
    once.call_once(|| {
        // SAFETY: the handler is a function of this library, which stays loaded.
        unsafe { libc::atexit(settle) };
    });
}

extern "C" fn settle() {
    // A forked child has no GPU of its own.
    if session::decided() != Some(Mode::Mgb) || !device::with_context().any(|(gpu, _)| work::is_busy(gpu)) {
        return;
    }
    let (done, all) = mpsc::channel();
    let waits = std::thread::Builder::new().spawn(move || {
        for (gpu, ordinal) in device::with_context() {
            // If the runtime is already shutting down, whether the work is done cannot be
            // found out, and mgbd waits.
            match device::settle(gpu, ordinal) {
                Ok(Code::SUCCESS) => work::ended(gpu),
                Ok(code) | Err(Own(code)) => fault::note(code),
            }
        }
        let _ = done.send(());
    });
    if waits.is_ok() {
        let _ = all.recv_timeout(EXIT_TIMEOUT);
    }
}
