//! Threads of MGB's own in the program's process.

use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts one, of which the program's signals know nothing: they are for its own threads. `None`: the system
/// refuses a thread.
pub fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    without_signals(|| Builder::new().name(name.to_owned()).spawn(run).ok())
}

/// As [`start`], one that ends with the scope.
pub fn start_within<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    run: impl FnOnce() + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, ()>> {
    without_signals(|| Builder::new().name(name.to_owned()).spawn_scoped(scope, run).ok())
}

/// A thread begins with the mask of the one that starts it: all signals are blocked meanwhile.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: all zeros is a valid set, which is filled here.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both are sets of this function's own; the mask is this thread's, and set back below.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let started = start();
    // SAFETY: the set that was read above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    started
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_programs_signals_stay_with_its_threads() {
        let is_blocked = || {
            // SAFETY: all zeros is a valid set.
            let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
            // SAFETY: reads this thread's mask into a set of this function's own.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut mask);
                libc::sigismember(&mask, libc::SIGUSR1) == 1
            }
        };
        assert!(!is_blocked());
        let own = super::start("mgb-test", move || assert!(is_blocked()));
        assert!(own.expect("there are threads").join().is_ok());
        assert!(!is_blocked());
    }
}
