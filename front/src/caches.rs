//! Allocators that keep freed memory, and empty their cache where an allocation fails.
//!
//! Before such a program waits for others, it is refused once: it frees what it keeps, and asks again. Only
//! allocators that are known to do so are refused; any other program would take it for an end.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Libraries of such allocators. PyTorch's has a name of its own in each of its builds for GPUs.
const LIBRARIES: [&CStr; 1] = [c"libc10_cuda.so"];

thread_local! {
    /// Bytes of the allocation that was refused last; 0: it has been asked for again since.
    static REFUSED: Cell<u64> = const { Cell::new(0) };
}

/// Whether an allocation that would wait is to fail instead, this time.
pub fn refuses_first(bytes: u64, would_wait: impl FnOnce() -> bool) -> bool {
    if REFUSED.replace(0) == bytes || !is_loaded() || !would_wait() {
        return false;
    }
    REFUSED.set(bytes);
    true
}

fn is_loaded() -> bool {
    static LOADED: AtomicBool = AtomicBool::new(false);
    if LOADED.load(Ordering::Relaxed) {
        return true;
    }
    let found = LIBRARIES.iter().any(|name| {
        // SAFETY: a C string; nothing is loaded that is not there.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if !handle.is_null() {
            // SAFETY: just opened; the program's own handles keep it.
            unsafe { libc::dlclose(handle) };
        }
        !handle.is_null()
    });
    if found {
        LOADED.store(true, Ordering::Relaxed);
    }
    found
}
