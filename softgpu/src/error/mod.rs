//! Errors: CUDA's codes, the last error of each host thread, and what softgpu adds on stderr.

mod table;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};

use parking_lot::Mutex;

pub use mgb_abi::error::Code as Error;

/// What a fallible function of softgpu returns.
pub type Result<T = ()> = core::result::Result<T, Error>;

thread_local! {
    static LAST: Cell<i32> = const { Cell::new(0) };
}

/// Turns a result into the code a CUDA function returns.
pub fn code(result: Result) -> i32 {
    result.err().map_or(0, |error| error.0 as i32)
}

/// The driver's code for an error: the same number wherever the driver has it.
pub fn of_driver(code: i32) -> i32 {
    match code {
        code if driver_name(code).is_some() => code,
        // The driver knows functions by handles.
        code if code == Error::INVALID_DEVICE_FUNCTION.0 as i32 => Error::INVALID_HANDLE.0 as i32,
        _ => Error::INVALID_VALUE.0 as i32,
    }
}

/// Turns a result into the code a runtime function returns, and remembers it as the calling
/// thread's last error. `cudaErrorNotReady` is an answer, not an error, and is not remembered.
pub fn remember(result: Result) -> i32 {
    let code = code(result);
    if code != 0 && code != Error::NOT_READY.0 as i32 {
        LAST.with(|last| last.set(code));
    }
    code
}

/// The calling thread's last error; cleared if `clear`.
pub fn last(clear: bool) -> i32 {
    LAST.with(|last| if clear { last.replace(0) } else { last.get() })
}

fn row(code: i32) -> Option<&'static table::ErrorRow> {
    table::ROWS
        .binary_search_by_key(&code, |row| row.code)
        .ok()
        .map(|at| &table::ROWS[at])
}

fn c_string(text: &'static str) -> Option<&'static CStr> {
    CStr::from_bytes_with_nul(text.as_bytes())
        .ok()
        .filter(|text| !text.is_empty())
}

/// The runtime's name of a code.
pub fn runtime_name(code: i32) -> Option<&'static CStr> {
    row(code).and_then(|row| c_string(row.runtime))
}

/// The driver's name of a code.
pub fn driver_name(code: i32) -> Option<&'static CStr> {
    row(code).and_then(|row| c_string(row.driver))
}

/// What a code says.
pub fn text(code: i32) -> Option<&'static CStr> {
    row(code).and_then(|row| c_string(row.text))
}

/// One line on stderr, where CUDA's code alone does not say what softgpu knows.
pub fn say(line: &str) {
    mgb_stderr::say!("softgpu: {line}");
}

/// The same, once per process for the same line.
pub fn say_once(line: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().insert(line.to_owned()) {
        say(line);
    }
}

/// What a stub returns: `cudaErrorNotSupported`, with a line that names the function.
pub fn not_supported(function: &str, reason: &str) -> i32 {
    say_once(&format!(
        "{function} is not supported by the software GPU: {reason}"
    ));
    remember(Err(Error::NOT_SUPPORTED))
}

/// Reads a C string; `None` for null.
///
/// # Safety
/// `text` is null or points to a null-terminated string that outlives `'a`.
pub unsafe fn c_str<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not null, so a string that outlives `'a`: contract of `c_str`.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_named() {
        assert!(table::ROWS.is_sorted_by_key(|row| row.code));
        assert_eq!(runtime_name(2), Some(c"cudaErrorMemoryAllocation"));
        assert_eq!(driver_name(2), Some(c"CUDA_ERROR_OUT_OF_MEMORY"));
        assert_eq!(driver_name(12), None);
        assert_eq!(text(0), Some(c"no error"));
        assert!(table::ROWS.iter().all(|row| !row.text.starts_with('\0')));
    }

    #[test]
    fn the_driver_gives_its_own_codes_alone() {
        for (error, code) in [
            (Error::MEMORY_ALLOCATION, 2),
            (Error::INVALID_MEMCPY_DIRECTION, 1),
            (Error::INVALID_DEVICE_FUNCTION, 400),
            (Error::NOT_READY, 600),
            (Error::ILLEGAL_ADDRESS, 700),
            (Error::STREAM_CAPTURE_UNSUPPORTED, 900),
            (Error::UNKNOWN, 999),
        ] {
            assert_eq!(of_driver(error.0 as i32), code, "{error:?}");
        }
        assert_eq!(of_driver(0), 0);
    }

    #[test]
    fn not_ready_is_not_remembered() {
        last(true);
        assert_eq!(remember(Err(Error::NOT_READY)), 600);
        assert_eq!(last(false), 0);
        assert_eq!(remember(Err(Error::INVALID_VALUE)), 1);
        assert_eq!(last(true), 1);
        assert_eq!(last(true), 0);
    }
}
