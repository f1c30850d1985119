//! Threads that the program cancels (`pthread_cancel`) while they are in MGB's code.
//!
//! A cancelled thread unwinds its stack at its next cancellation point, and Rust's frames cannot be unwound in
//! that way: the process is aborted. So a thread cannot be cancelled inside; the request stays, and takes
//! effect at the first cancellation point after the call, as with a driver that has none.

use std::ffi::c_int;

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// The thread is not cancelled as long as this lives.
#[must_use]
pub struct NoCancellation(c_int);

/// Puts off the thread's cancellation: a few nanoseconds.
#[inline]
pub fn hold() -> NoCancellation {
    let mut before = 0;
    // SAFETY: writes one number, and changes the calling thread alone.
    unsafe { pthread_setcancelstate(DISABLE, &mut before) };
    NoCancellation(before)
}

impl Drop for NoCancellation {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the state that `hold` has found; no cancellation point.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}
