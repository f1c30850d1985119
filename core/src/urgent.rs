//! Whether a process that others wait for has work on a GPU: mgbd is told at its first launch, and when its
//! own synchronisation returns. How long that takes is counted: a *burst*. In a batch program nothing is
//! told, and a launch reads one word more, before and behind it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mgb_probe::{Class, Client, clock};

use crate::captures;

/// Whether this process is of the class that others wait for.
static IS_ON: AtomicBool = AtomicBool::new(false);
static CLIENT: OnceLock<&'static Client> = OnceLock::new();
/// Bit n: mgbd was told that the process has work on GPU n.
static TOLD: AtomicU64 = AtomicU64::new(0);
/// When the burst began that is under way, in nanoseconds of [`clock`]; 0: none is.
static BURST: AtomicU64 = AtomicU64::new(0);

/// From here on mgbd is told, if the client is of that class.
pub fn turn_on(client: &'static Client) {
    if client.class() == Class::Latency && CLIENT.set(client).is_ok() {
        // SAFETY: the handler is a function of this library, which stays loaded, and only stores an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(turn_off)) };
        IS_ON.store(true, Ordering::Release);
    }
}

/// A child has no client of its own yet, and its parent's work is not its.
extern "C" fn turn_off() {
    IS_ON.store(false, Ordering::Release);
}

/// A kernel or graph is about to be launched. What the thread waits for until it is (its memory, a module) is
/// time that others wait.
#[inline]
pub fn approaches() {
    if IS_ON.load(Ordering::Relaxed) && BURST.load(Ordering::Relaxed) == 0 {
        begin_burst();
    }
}

#[cold]
fn begin_burst() {
    // What is captured is launched another time.
    if !captures::any() {
        let _ = BURST.compare_exchange(0, nanoseconds(), Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Work was handed to the GPU: called after the call that did so, which is not to wait for this.
#[inline]
pub fn begins(gpu: u32) {
    if IS_ON.load(Ordering::Relaxed) && TOLD.load(Ordering::Relaxed) & bit(gpu) == 0 {
        tell(gpu, true);
    }
}

/// A synchronisation of the program's has returned: nobody waits for what may still be under way.
#[inline]
pub fn synchronised() {
    if IS_ON.load(Ordering::Relaxed) {
        if BURST.load(Ordering::Relaxed) != 0 {
            end_burst();
        }
        if TOLD.load(Ordering::Relaxed) != 0 {
            all_over();
        }
    }
}

/// All that the GPU was given is done.
pub fn over(gpu: u32) {
    if IS_ON.load(Ordering::Relaxed) && TOLD.load(Ordering::Relaxed) & bit(gpu) != 0 {
        tell(gpu, false);
    }
}

#[cold]
fn tell(gpu: u32, is_urgent: bool) {
    let Some(client) = CLIENT.get() else { return };
    if is_urgent {
        TOLD.fetch_or(bit(gpu), Ordering::AcqRel);
    } else {
        TOLD.fetch_and(!bit(gpu), Ordering::AcqRel);
    }
    client.set_urgent(gpu, is_urgent);
}

#[cold]
fn end_burst() {
    let began = BURST.swap(0, Ordering::Relaxed);
    if let Some(client) = CLIENT.get().filter(|_| began != 0) {
        client.bursts().note(nanoseconds().saturating_sub(began) / 1000);
    }
}

/// Now, and never 0.
fn nanoseconds() -> u64 {
    clock::nanoseconds().max(1)
}

#[cold]
fn all_over() {
    let mut told = TOLD.load(Ordering::Acquire);
    while told != 0 {
        tell(told.trailing_zeros(), false);
        told &= told - 1;
    }
}

fn bit(gpu: u32) -> u64 {
    1u64.checked_shl(gpu).unwrap_or(0)
}
