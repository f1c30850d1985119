//! Threads of softgpu's own, which the program must not notice.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::error::{Error, Result, say};

/// Set when the process is on its way out: work that has not begun never does.
static STOPPING: AtomicBool = AtomicBool::new(false);

/// Whether the process is on its way out.
pub fn stopping() -> bool {
    STOPPING.load(Ordering::SeqCst)
}

/// Fails once the process is on its way out, as CUDA does once its own exit handler has run.
///
/// # Errors
/// `CUDART_UNLOADING`.
pub fn running() -> Result {
    if stopping() {
        Err(Error::CUDART_UNLOADING)
    } else {
        Ok(())
    }
}

/// How many threads do work that touches the program's memory.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// How long the process's exit waits for them.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Says that a thread works, until it is dropped.
pub struct Busy(());

/// Says that this thread works from now on.
pub fn busy() -> Busy {
    BUSY.fetch_add(1, Ordering::SeqCst);
    Busy(())
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }
}

extern "C" fn at_exit() {
    STOPPING.store(true, Ordering::SeqCst);
    let begin = Instant::now();
    while BUSY.load(Ordering::SeqCst) > 0 && begin.elapsed() < EXIT_TIMEOUT {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Has kernels stop at the next block once the program exits, so that no work touches what the C library is
/// taking down. Called as the devices are found: what the program has registered by then runs behind it and finds
/// CUDA shut down; what it registers later runs before.
pub fn watch_exit() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the library is never unloaded (it is linked with `-z nodelete`), so the handler
        // is there when the process exits. Should it not be registered, kernels end with the process.
        unsafe { libc::atexit(at_exit) };
    });
}

/// Starts a thread that takes none of the program's signals.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
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
