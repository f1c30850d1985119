//! Driver functions by name: a front's, where there is one.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{put, runtime};
use crate::config::profile::CUDA_VERSION;
use crate::driver::entry;
use crate::driver_front;
use crate::error::{Error, Result, c_str};
use crate::stream::handle;

/// `cudaEnablePerThreadDefaultStream`.
const PER_THREAD: u64 = 2;

fn find(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut c_int,
) -> Result {
    // SAFETY: `symbol` is null or a string: CUDA's contract of the function.
    let symbol = unsafe { c_str(symbol) }.ok_or(Error::INVALID_VALUE)?;
    let flags = if flags == 0 && handle::own_default() {
        PER_THREAD
    } else {
        flags
    };
    let found = match driver_front::uninitialised() {
        Some(front) => front.function(symbol, version, flags).ok(),
        None => entry::find(&symbol.to_string_lossy(), flags).map(<*const c_void>::cast_mut),
    };
    put!(function, found.unwrap_or(std::ptr::null_mut()));
    if !status.is_null() {
        put!(status, c_int::from(found.is_none()));
    }
    Ok(())
}

runtime! {
    fn cudaGetDriverEntryPoint(
        symbol: *const c_char, function: *mut *mut c_void, flags: u64, status: *mut c_int,
    ) {
        find(symbol, function, CUDA_VERSION, flags, status)
    }

    fn cudaGetDriverEntryPointByVersion(
        symbol: *const c_char, function: *mut *mut c_void, version: c_uint, flags: u64, status: *mut c_int,
    ) {
        find(symbol, function, version as c_int, flags, status)
    }
}
