//! Error codes: the last one, names, texts.

use std::ffi::c_char;

use crate::error;

const UNRECOGNIZED: *const c_char = c"unrecognized error code".as_ptr();

/// CUDA's `cudaGetLastError`: what a call of this thread has returned. What went wrong on the device is no error
/// before one has, and is taken back with any other; the next call that looks at the device returns it again.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> i32 {
    error::last(true)
}

/// Implements CUDA's `cudaPeekAtLastError`.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> i32 {
    error::last(false)
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
