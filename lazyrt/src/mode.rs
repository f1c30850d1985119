//! Whether the process runs under MGB: decided at its first GPU op, and anew in a forked child.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use mgb_probe::Client;

use crate::binder;

/// How calls are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every call goes straight to the runtime.
    Native,
    /// Under MGB, with a client of mgbd.
    Mgb,
    /// A child forked after its parent used CUDA. CUDA does not work there, with or without MGB.
    Forked,
}

const UNKNOWN: u8 = 0;
const NATIVE: u8 = 1;
const MGB: u8 = 2;
const FORKED: u8 = 3;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
static USED: AtomicBool = AtomicBool::new(false);

/// The mode of this process.
pub fn mode() -> Mode {
    match MODE.load(Ordering::Acquire) {
        NATIVE => Mode::Native,
        MGB => Mode::Mgb,
        FORKED => Mode::Forked,
        _ => decide(),
    }
}

/// The mode if it was decided already.
pub fn decided() -> Option<Mode> {
    (MODE.load(Ordering::Acquire) != UNKNOWN).then(mode)
}

/// Notes that the driver is in use: from here on a forked child cannot use it.
pub fn note_use() {
    USED.store(true, Ordering::Release);
}

#[cold]
fn decide() -> Mode {
    watch_forks();
    binder::register();
    crate::trace::is_wanted();
    let mode = if mgb_probe::client().is_some() {
        MGB
    } else {
        NATIVE
    };
    MODE.store(mode, Ordering::Release);
    self::mode()
}

/// The client; there is one in [`Mode::Mgb`].
pub fn client() -> Option<&'static Client> {
    mgb_probe::client()
}

fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this library, which stays loaded, and only stores atomics.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    });
}

extern "C" fn after_fork() {
    let mode = MODE.load(Ordering::Acquire);
    if mode == MGB {
        let child = if USED.load(Ordering::Acquire) {
            FORKED
        } else {
            UNKNOWN
        };
        MODE.store(child, Ordering::Release);
    }
}
