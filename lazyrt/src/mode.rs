//! Whether the process runs under MGB: decided at its first GPU op, and anew in a forked child.

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use mgb_probe::Client;
use parking_lot::ReentrantMutex;

use crate::{binder, gate, narrow, open, work};

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
/// Under MGB, in a process that has to be narrowed to one GPU before its first op.
const WIDE: u8 = 4;

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
    match MODE.load(Ordering::Acquire) {
        UNKNOWN => None,
        WIDE => Some(Mode::Mgb),
        _ => Some(mode()),
    }
}

/// Connects to mgbd before the first op, for the sake of code that may load the driver without a word: it must find the
/// driver's MPS set up.
pub fn connect_early() {
    if MODE.load(Ordering::Acquire) == UNKNOWN {
        connect();
    }
}

/// Notes that the driver is in use: from here on a forked child cannot use it.
pub fn note_use() {
    USED.store(true, Ordering::Release);
}

#[cold]
fn decide() -> Mode {
    static NARROWING: ReentrantMutex<Cell<bool>> = ReentrantMutex::new(Cell::new(false));
    if MODE.load(Ordering::Acquire) == UNKNOWN {
        connect();
    }
    if MODE.load(Ordering::Acquire) == WIDE {
        let narrowing = NARROWING.lock();
        // What narrowing itself calls comes by here as well.
        if narrowing.replace(true) {
            return Mode::Mgb;
        }
        if MODE.load(Ordering::Acquire) == WIDE {
            narrow::to_one_gpu();
            MODE.store(MGB, Ordering::Release);
        }
        narrowing.set(false);
    }
    mode()
}

fn connect() {
    watch_forks();
    gate::prepare();
    binder::register();
    crate::trace::is_wanted();
    let client = mgb_probe::client();
    if let Some(client) = client {
        work::publish(client.published().gpus());
    }
    let mode = if client.is_none() {
        NATIVE
    } else if open::calls_driver() {
        WIDE
    } else {
        MGB
    };
    // Another thread may have been as far already.
    let _ = MODE.compare_exchange(UNKNOWN, mode, Ordering::AcqRel, Ordering::Acquire);
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
    if mode == MGB || mode == WIDE {
        let child = if USED.load(Ordering::Acquire) {
            FORKED
        } else {
            UNKNOWN
        };
        MODE.store(child, Ordering::Release);
    }
}
