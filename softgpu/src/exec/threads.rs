//! Threads of softgpu's own, which the program must not notice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;

use crate::error::say;

/// Set when the process is on its way out: work that has not begun never does.
static STOPPING: AtomicBool = AtomicBool::new(false);

/// Whether the process is on its way out.
pub fn stopping() -> bool {
    STOPPING.load(Ordering::Relaxed)
}

extern "C" fn at_exit() {
    STOPPING.store(true, Ordering::Relaxed);
    super::pool::drain();
}

/// Has kernels stop at the next block once the program exits, so that none of them touches what
/// the C library is taking down. Called once, with the first thread.
fn watch_exit() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the library is never unloaded (it is linked with `-z nodelete`), so the handler
        // is there when the process exits. Should it not be registered, kernels end with the process.
        unsafe { libc::atexit(at_exit) };
    });
}

/// Starts a thread that takes none of the program's signals.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    watch_exit();
    // SAFETY: a signal set is plain data, filled before it is used; masks are per thread.
    let before = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        // Faults of kernels must arrive.
        for signal in super::fault::SIGNALS {
            libc::sigdelset(&mut all, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    };
    let started = Builder::new().name(name.to_owned()).spawn(body);
    // SAFETY: the mask that was read above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    if let Err(error) = started {
        say(&format!(
            "failed to start a thread: {error}; queued work cannot run, so the process ends"
        ));
        std::process::abort();
    }
}
