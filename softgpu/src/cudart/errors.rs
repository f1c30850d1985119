//! Error codes: the last one, names, texts.

use std::ffi::c_char;

use crate::device::{current, node};
use crate::error;

const UNRECOGNIZED: *const c_char = c"unrecognized error code".as_ptr();

/// The error that the current device is stuck in, if the process uses one and a call has returned it.
fn stuck() -> i32 {
    if node().is_err() {
        return 0;
    }
    current::gpu()
        .and_then(|gpu| gpu.check_told())
        .err()
        .map_or(0, |error| error.0 as i32)
}

fn last(clear: bool) -> i32 {
    match error::last(clear) {
        0 => stuck(),
        code => code,
    }
}

/// CUDA's `cudaGetLastError`. An error that the device is stuck in stays.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> i32 {
    last(true)
}

/// Implements CUDA's `cudaPeekAtLastError`.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> i32 {
    last(false)
}

/// Implements CUDA's `cudaGetErrorName`.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(code: i32) -> *const c_char {
    error::runtime_name(code).map_or(UNRECOGNIZED, |name| name.as_ptr())
}

/// Implements CUDA's `cudaGetErrorString`.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(code: i32) -> *const c_char {
    error::text(code).map_or(UNRECOGNIZED, |text| text.as_ptr())
}
