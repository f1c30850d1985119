//! Driver functions by name. A plain name means the newest form that softgpu has.

use std::ffi::{c_char, c_int, c_ulonglong, c_void};

use super::{Export, context, copy, device, driver, memory, streams, vmm};
use crate::entry::put;
use crate::error::{Error, Result, c_str};

/// The function of this name, or of its newest version.
pub fn find(name: &str) -> Option<*const c_void> {
    let tables = [
        device::EXPORTS,
        context::EXPORTS,
        memory::EXPORTS,
        streams::EXPORTS,
        copy::EXPORTS,
        vmm::EXPORTS,
        EXPORTS,
    ];
    let named = |name: &str| {
        tables
            .iter()
            .copied()
            .flatten()
            .find(|export: &&Export| export.name == name)
    };
    [format!("{name}_v3"), format!("{name}_v2"), name.to_owned()]
        .iter()
        .find_map(|name| named(name))
        .map(|e| e.address)
}

fn look_up(symbol: *const c_char, function: *mut *mut c_void, status: *mut c_int) -> Result {
    // SAFETY: `symbol` is null or a string: CUDA's contract of the function.
    let symbol = unsafe { c_str(symbol) }.ok_or(Error::INVALID_VALUE)?;
    let found = find(&symbol.to_string_lossy());
    put!(function, found.unwrap_or(std::ptr::null()).cast_mut());
    if !status.is_null() {
        put!(status, c_int::from(found.is_none()));
    }
    if found.is_some() {
        Ok(())
    } else {
        Err(Error::NOT_FOUND)
    }
}

driver! {
    fn cuGetProcAddress(
        symbol: *const c_char, function: *mut *mut c_void, _version: c_int, _flags: c_ulonglong,
    ) {
        look_up(symbol, function, std::ptr::null_mut())
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char, function: *mut *mut c_void, _version: c_int, _flags: c_ulonglong,
        status: *mut c_int,
    ) {
        look_up(symbol, function, status)
    }
}
