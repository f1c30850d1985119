//! Writing without the signals that a write may raise.

/// The signals that a write may raise for the writing thread: no reader, a file at its size limit, and a
/// terminal that stops background jobs that write.
const SIGNALS: [libc::c_int; 3] = [libc::SIGPIPE, libc::SIGXFSZ, libc::SIGTTOU];

/// While it lives, a write raises none of [`SIGNALS`] in this thread.
pub struct Quiet {
    before: libc::sigset_t,
    /// Those of the signals that waited before.
    pending: libc::sigset_t,
}

impl Quiet {
    /// Blocks the signals in this thread.
    pub fn begin() -> Quiet {
        let signals = set();
        // SAFETY: all zeros is a valid set; the calls replace them, and the mask is this thread's own.
        unsafe {
            let mut quiet: Quiet = std::mem::zeroed();
            libc::sigpending(&mut quiet.pending);
            libc::pthread_sigmask(libc::SIG_BLOCK, &signals, &mut quiet.before);
            quiet
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let none = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        for signal in SIGNALS {
            // SAFETY: sets of this value and of this function; a signal that the write has raised waits for
            // this thread alone, and is taken. What waited before is the program's.
            unsafe {
                let mut now: libc::sigset_t = std::mem::zeroed();
                libc::sigpending(&mut now);
                if libc::sigismember(&now, signal) == 1 && libc::sigismember(&self.pending, signal) != 1 {
                    let mut one: libc::sigset_t = std::mem::zeroed();
                    libc::sigemptyset(&mut one);
                    libc::sigaddset(&mut one, signal);
                    // The C library's is a cancellation point.
                    let bytes = size_of::<u64>();
                    let info = std::ptr::null_mut::<libc::siginfo_t>();
                    libc::syscall(
                        libc::SYS_rt_sigtimedwait,
                        &raw const one,
                        info,
                        &raw const none,
                        bytes,
                    );
                }
            }
        }
        // SAFETY: the mask that `begin` has read.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

fn set() -> libc::sigset_t {
    // SAFETY: all zeros is a valid set, which is emptied and filled.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        for signal in SIGNALS {
            libc::sigaddset(&mut signals, signal);
        }
        signals
    }
}
