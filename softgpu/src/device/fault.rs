//! What a fault of a kernel leaves behind: an error of the process, not of one device.
//!
//! Every context of the process answers the fault until it ends, no context can be made any more, and a reset
//! changes neither, as on H100s and H200s (docs/design/hardware-behaviour.md).

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::error::{Error, Result};

/// The first such error of the process, 0 for none.
static FAULT: AtomicU32 = AtomicU32::new(0);

/// Keeps the error, unless there was one before.
pub fn note(error: Error) {
    let _ = FAULT.compare_exchange(0, error.0, Relaxed, Relaxed);
}

/// The error that the process is stuck in.
///
/// # Errors
/// That one.
pub fn check() -> Result {
    match FAULT.load(Relaxed) {
        0 => Ok(()),
        code => Err(Error(code)),
    }
}
