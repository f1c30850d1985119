//! Driver functions by name.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{put, runtime};
use crate::driver::entry;
use crate::error::{Error, Result, c_str};

fn find(symbol: *const c_char, function: *mut *mut c_void, status: *mut c_int) -> Result {
    // SAFETY: `symbol` is null or a string: CUDA's contract of the function.
    let symbol = unsafe { c_str(symbol) }.ok_or(Error::INVALID_VALUE)?;
    let found = entry::find(&symbol.to_string_lossy());
    put!(function, found.unwrap_or(std::ptr::null()).cast_mut());
    if !status.is_null() {
        put!(status, c_int::from(found.is_none()));
    }
    Ok(())
}

runtime! {
    fn cudaGetDriverEntryPoint(
        symbol: *const c_char, function: *mut *mut c_void, _flags: u64, status: *mut c_int,
    ) {
        find(symbol, function, status)
    }

    fn cudaGetDriverEntryPointByVersion(
        symbol: *const c_char, function: *mut *mut c_void, _version: c_uint, _flags: u64, status: *mut c_int,
    ) {
        find(symbol, function, status)
    }
}
