//! The last error: lazyrt's own first, then the runtime's.

use crate::code::{Answer, Code};
use crate::{native, thread};

/// Keeps an error of lazyrt's own for `cudaGetLastError`. It takes the place of an earlier one of the
/// runtime's, as a later error does natively.
#[cold]
pub fn record(code: Code) {
    // SAFETY: no arguments. Functions that need no context leave errors too.
    unsafe { native::cudaGetLastError() };
    thread::with(|thread| thread.set_error(code));
}

/// `cudaGetLastError`.
///
/// # Safety
/// None needed; the type is that of all treatments.
pub unsafe fn get_last(native: unsafe extern "C" fn() -> Code) -> Answer {
    let own = thread::with(|thread| {
        let own = thread.error();
        thread.set_error(Code::SUCCESS);
        own
    });
    Ok(own_first(own, native))
}

/// `cudaPeekAtLastError`.
///
/// # Safety
/// None needed; the type is that of all treatments.
pub unsafe fn peek_at_last(native: unsafe extern "C" fn() -> Code) -> Answer {
    Ok(own_first(thread::with(|thread| thread.error()), native))
}

fn own_first(own: Code, native: unsafe extern "C" fn() -> Code) -> Code {
    if own.is_success() {
        // SAFETY: no arguments.
        unsafe { native() }
    } else {
        own
    }
}
