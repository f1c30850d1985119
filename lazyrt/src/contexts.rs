//! The GPUs on which this process has a context.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use mgb_probe::wire::MAX_GPUS;

/// One bit for each GPU, by index into the hello.
static CONTEXTS: AtomicU64 = AtomicU64::new(0);
/// What is to be done in each context once it is made.
static SET_UP: OnceLock<fn()> = OnceLock::new();

fn bit(gpu: u32) -> u64 {
    1 << (gpu % MAX_GPUS as u32)
}

/// Registers what to do on the thread that makes a context, right after it, with the context current:
/// modules above this one bring the context to the state that the program has asked for. The first
/// registration stays.
pub fn set_set_up(set_up: fn()) {
    let _ = SET_UP.set(set_up);
}

/// A context was made on the GPU. True: it is the first one there.
pub fn note(gpu: u32) -> bool {
    CONTEXTS.fetch_or(bit(gpu), Ordering::AcqRel) & bit(gpu) == 0
}

/// Brings a context that was just made to the state that the program has asked for.
pub fn set_up() {
    if let Some(set_up) = SET_UP.get() {
        set_up();
    }
}

/// Whether there is any.
pub fn any() -> bool {
    CONTEXTS.load(Ordering::Acquire) != 0
}

/// Whether there is one on this GPU.
pub fn is_on(gpu: u32) -> bool {
    CONTEXTS.load(Ordering::Acquire) & bit(gpu) != 0
}

/// Whether there are contexts on several GPUs.
#[inline]
pub fn on_several() -> bool {
    let mask = CONTEXTS.load(Ordering::Relaxed);
    mask & mask.wrapping_sub(1) != 0
}

/// The GPUs with a context.
pub fn gpus() -> impl Iterator<Item = u32> {
    let mask = CONTEXTS.load(Ordering::Acquire);
    (0..MAX_GPUS as u32).filter(move |gpu| mask & bit(*gpu) != 0)
}
