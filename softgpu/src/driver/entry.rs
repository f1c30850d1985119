//! Driver functions by name. A plain name means the newest form that softgpu has.

use std::ffi::{c_char, c_int, c_ulonglong, c_void};

use super::{
    Export, array, capture, context, copy, copy_box, device, driver, events, forms, graph, host, ipc, launch,
    memory, pool, set, stream, streams, surface, texture, vmm,
};
use crate::entry::put;
use crate::error::{Error, Result, c_str};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: c_ulonglong = 2;

/// The function of this name, or of its newest version; with `PER_THREAD` in the flags the form for the
/// thread's own default stream, where it has one.
pub fn find(name: &str, flags: c_ulonglong) -> Option<*const c_void> {
    let tables = [
        array::EXPORTS,
        device::EXPORTS,
        context::EXPORTS,
        copy::EXPORTS,
        copy_box::EXPORTS,
        graph::EXPORTS,
        host::EXPORTS,
        ipc::EXPORTS,
        launch::EXPORTS,
        memory::EXPORTS,
        pool::EXPORTS,
        set::EXPORTS,
        stream::EXPORTS,
        events::EXPORTS,
        streams::EXPORTS,
        capture::EXPORTS,
        surface::EXPORTS,
        texture::EXPORTS,
        vmm::EXPORTS,
        forms::EXPORTS,
        EXPORTS,
    ];
    let named = |name: &str| {
        tables
            .iter()
            .copied()
            .flatten()
            .find(|export: &&Export| export.name == name)
    };
    let forms: &[&str] = if flags & PER_THREAD != 0 {
        &["_ptsz", "_ptds", ""]
    } else {
        &[""]
    };
    forms
        .iter()
        .flat_map(|form| ["_v3", "_v2", ""].map(|version| format!("{name}{version}{form}")))
        .find_map(|name| named(&name))
        .map(|e| e.address)
}

fn look_up(
    symbol: *const c_char,
    function: *mut *mut c_void,
    flags: c_ulonglong,
    status: *mut c_int,
) -> Result {
    // SAFETY: `symbol` is null or a string: CUDA's contract of the function.
    let symbol = unsafe { c_str(symbol) }.ok_or(Error::INVALID_VALUE)?;
    let found = find(&symbol.to_string_lossy(), flags);
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
        symbol: *const c_char, function: *mut *mut c_void, _version: c_int, flags: c_ulonglong,
    ) {
        look_up(symbol, function, flags, std::ptr::null_mut())
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char, function: *mut *mut c_void, _version: c_int, flags: c_ulonglong,
        status: *mut c_int,
    ) {
        look_up(symbol, function, flags, status)
    }
}
