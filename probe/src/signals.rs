//! Signals by which people end a program that waits for room: Ctrl-C, a job's time limit, a closed terminal.
//!
//! Natively an allocation does not wait, so a program that handles such a signal by a flag, as Python does,
//! sees it at once. Here it would see it when there is room. So while a thread waits, the program's handlers
//! of these signals are called by one of MGB's, which notes that the signal has come: the wait ends, and the
//! allocation is refused. No handler is touched at other times, and what a signal does by default it does.
//!
//! Each of MGB's handlers calls one handler of the program's, and never another one: a program that has found
//! one in place of its own, and calls it from a newer handler, goes in no circle.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock;

/// The signals. Others are sent to running programs by themselves (timers, profilers, other processes of a
/// job): they end no wait.
const SIGNALS: [(c_int, &str); 3] = [
    (libc::SIGINT, "SIGINT"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGHUP, "SIGHUP"),
];
/// How long requests are refused rather than wait, after such a signal: its handler in the program's own
/// language runs once the calls that it is in have returned, some of which ask again where they are refused.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a request that begins in that time may take all the same: what there is room for is granted by
/// then, also by an `mgbd` that has much to do.
const ANSWERED: Duration = Duration::from_millis(250);
/// Handlers of the program's that can be told apart.
const MAX_HANDLERS: usize = 8;

/// How many of the signals came while a thread waited.
static CAME: AtomicU32 = AtomicU32::new(0);
/// The last one, and when, in nanoseconds of the monotonic clock.
static LAST: AtomicU32 = AtomicU32::new(0);
static WHEN: AtomicU64 = AtomicU64::new(0);

/// A handler of the program's, which one of MGB's calls. Never changed once it is there.
struct ProgramHandler {
    handler: AtomicUsize,
    /// It takes three arguments.
    takes_info: AtomicBool,
}

static PLACES: [ProgramHandler; MAX_HANDLERS] = [const {
    ProgramHandler {
        handler: AtomicUsize::new(0),
        takes_info: AtomicBool::new(false),
    }
}; MAX_HANDLERS];

/// MGB's handlers, one for each place.
static HANDLERS: [Handler; MAX_HANDLERS] = [
    handle::<0>,
    handle::<1>,
    handle::<2>,
    handle::<3>,
    handle::<4>,
    handle::<5>,
    handle::<6>,
    handle::<7>,
];

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Called by the system in place of a handler of the program's. Only what may be done in a signal handler.
extern "C" fn handle<const PLACE: usize>(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    WHEN.store(clock::nanoseconds(), Ordering::Relaxed);
    LAST.store(signal.unsigned_abs(), Ordering::Relaxed);
    CAME.fetch_add(1, Ordering::Release);
    let place = &PLACES[PLACE];
    let handler = place.handler.load(Ordering::Acquire);
    if place.takes_info.load(Ordering::Relaxed) {
        // SAFETY: the address that the program gave for a handler of three arguments.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: the address that the program gave for a handler of one argument.
        let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
        handler(signal);
    }
}

/// The threads that wait, and what the program had set for each signal that is watched.
struct Watched {
    threads: u32,
    before: [Option<libc::sigaction>; SIGNALS.len()],
}

static WATCHED: Mutex<Watched> = Mutex::new(Watched {
    threads: 0,
    before: [None; SIGNALS.len()],
});

/// A wait that such a signal ends.
pub(crate) struct SignalWatch {
    came: u32,
    since: Instant,
}

/// A wait begins.
pub(crate) fn watch() -> SignalWatch {
    let mut watched = WATCHED.lock();
    watched.threads += 1;
    if watched.threads == 1 {
        watched.before = SIGNALS.map(|(signal, _)| replace(signal));
    }
    SignalWatch {
        came: CAME.load(Ordering::Acquire),
        since: Instant::now(),
    }
}

impl SignalWatch {
    /// Whether such a signal has come since the wait began; or just before, and there is no room.
    pub(crate) fn is_over(&self) -> bool {
        CAME.load(Ordering::Acquire) != self.came || (self.since.elapsed() >= ANSWERED && last().is_some())
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        let mut watched = WATCHED.lock();
        watched.threads -= 1;
        if watched.threads == 0 {
            let before = std::mem::take(&mut watched.before);
            for ((signal, _), before) in SIGNALS.into_iter().zip(before) {
                if let Some(before) = before {
                    put_back(signal, &before);
                }
            }
        }
    }
}

/// The name of such a signal that came during a wait a moment ago.
pub(crate) fn last() -> Option<&'static str> {
    let number = LAST.load(Ordering::Relaxed);
    let when = WHEN.load(Ordering::Relaxed);
    if number == 0 || clock::nanoseconds().saturating_sub(when) > REFUSAL_TIMEOUT.as_nanos() as u64 {
        return None;
    }
    let named = SIGNALS.iter().find(|(signal, _)| signal.unsigned_abs() == number);
    named.map(|(_, name)| *name)
}

fn action(signal: c_int) -> Option<libc::sigaction> {
    // SAFETY: all zeros is a valid value, which the call replaces.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: reads what is set for the signal.
    let code = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    (code == 0).then_some(action)
}

/// The place of a handler, which may be taken now. `None`: there is none left.
fn place_of(action: &libc::sigaction) -> Option<usize> {
    let takes_info = action.sa_flags & libc::SA_SIGINFO != 0;
    for (at, place) in PLACES.iter().enumerate() {
        let known = place.handler.load(Ordering::Acquire);
        if known == 0 {
            place.takes_info.store(takes_info, Ordering::Relaxed);
            place.handler.store(action.sa_sigaction, Ordering::Release);
            return Some(at);
        }
        if known == action.sa_sigaction && place.takes_info.load(Ordering::Relaxed) == takes_info {
            return Some(at);
        }
    }
    None
}

fn is_own(handler: usize) -> bool {
    HANDLERS.iter().any(|own| *own as usize == handler)
}

/// Sets MGB's handler in place of the program's; what was set. `None`: the program has none, or it is MGB's
/// already.
fn replace(signal: c_int) -> Option<libc::sigaction> {
    let before = action(signal)?;
    let handler = before.sa_sigaction;
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN || is_own(handler) {
        return None;
    }
    let mut own = before;
    own.sa_sigaction = HANDLERS[place_of(&before)?] as usize;
    own.sa_flags |= libc::SA_SIGINFO;
    // SAFETY: a handler that does what a handler may, with the program's own mask and flags.
    let code = unsafe { libc::sigaction(signal, &own, std::ptr::null_mut()) };
    (code == 0).then_some(before)
}

/// Sets the program's handler again, unless it has set another one meanwhile.
fn put_back(signal: c_int, before: &libc::sigaction) {
    if action(signal).is_some_and(|now| is_own(now.sa_sigaction)) {
        // SAFETY: what the program had set.
        unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static RAN: AtomicU32 = AtomicU32::new(0);

    extern "C" fn counts(_: c_int) {
        RAN.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn a_handler_runs_and_ends_waits_and_is_as_before() {
        let raise = |signal| {
            // SAFETY: a signal to this thread, which is handled.
            unsafe { libc::raise(signal) }
        };
        // SAFETY: all zeros is a valid action: no flags, an empty mask.
        let mut own: libc::sigaction = unsafe { std::mem::zeroed() };
        own.sa_sigaction = counts as *const () as usize;
        // SAFETY: a handler that only adds.
        unsafe { libc::sigaction(libc::SIGHUP, &own, std::ptr::null_mut()) };
        raise(libc::SIGHUP);
        assert_eq!((RAN.load(Ordering::SeqCst), last()), (1, None), "nobody waits");
        let first = watch();
        let second = watch();
        assert!(!first.is_over());
        raise(libc::SIGHUP);
        assert!(first.is_over() && second.is_over());
        assert_eq!((RAN.load(Ordering::SeqCst), last()), (2, Some("SIGHUP")));
        drop(first);
        raise(libc::SIGHUP);
        assert_eq!(RAN.load(Ordering::SeqCst), 3);
        drop(second);
        let now = action(libc::SIGHUP).expect("a signal").sa_sigaction;
        assert_eq!(now, own.sa_sigaction);
        let ended = action(libc::SIGTERM).expect("a signal").sa_sigaction;
        assert_eq!(ended, libc::SIG_DFL, "what has no handler gets none");
        // What begins a moment later is over as well, unless there is room for it.
        let mut later = watch();
        assert!(!later.is_over());
        later.since -= ANSWERED;
        WHEN.store(clock::nanoseconds(), Ordering::Relaxed);
        assert!(later.is_over());
    }
}
