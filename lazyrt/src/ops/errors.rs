//! The last error, which is lazyrt's own or the runtime's. Keeping one of lazyrt's own clears the runtime's, so
//! an error that the runtime has is always the later one.

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

/// Makes calls that the program did not ask for: where it has no last error it has none afterwards.
pub fn untold<T>(calls: impl FnOnce() -> T) -> T {
    // SAFETY: no arguments.
    let is_clear = unsafe { native::cudaPeekAtLastError() }.is_success();
    let answer = calls();
    if is_clear {
        // SAFETY: no arguments.
        unsafe { native::cudaGetLastError() };
    }
    answer
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
    Ok(later(native, own))
}

/// `cudaPeekAtLastError`.
///
/// # Safety
/// None needed; the type is that of all treatments.
pub unsafe fn peek_at_last(native: unsafe extern "C" fn() -> Code) -> Answer {
    Ok(later(native, thread::with(|thread| thread.error())))
}

/// The later one of the runtime's last error and lazyrt's own.
fn later(native: unsafe extern "C" fn() -> Code, own: Code) -> Code {
    // SAFETY: no arguments.
    let code = unsafe { native() };
    if code.is_success() { own } else { code }
}
