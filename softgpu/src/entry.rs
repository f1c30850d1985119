//! What the exported functions of all three libraries share.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Result, say};

/// Runs the body of an exported function: no panic crosses into C.
pub fn caught<T>(name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        say(&format!(
            "{name} failed inside the software GPU; the message above says where"
        ));
        Err(Error::UNKNOWN)
    })
}

/// Writes through an out pointer of the caller.
macro_rules! put {
    ($pointer:expr, $value:expr) => {{
        let (pointer, value) = ($pointer, $value);
        if pointer.is_null() {
            return Err($crate::error::Error::INVALID_VALUE);
        }
        // SAFETY: not null, and writable: CUDA's contract of every out pointer.
        unsafe { pointer.write(value) }
    }};
}
pub(crate) use put;
