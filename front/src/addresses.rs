//! `cuGetProcAddress`: the driver picks the version of a function, the front answers with its own address of
//! it.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_ulonglong, c_void};
use std::sync::OnceLock;

use crate::calls::Code;
use crate::driver;
use crate::exports::EXPORTS;
use crate::names::NAMES;
use crate::native::own;

own! {
    fn cuGetProcAddress(
        symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: c_ulonglong,
    ) |native| {
        let code = native(symbol, function, version, flags);
        // SAFETY: the same arguments, after the driver's answer.
        unsafe { answer(code, symbol, function) };
        code
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: c_ulonglong,
        status: *mut c_int,
    ) |native| {
        let code = native(symbol, function, version, flags, status);
        // SAFETY: the same arguments, after the driver's answer.
        unsafe { answer(code, symbol, function) };
        code
    }
}

/// Replaces the driver's address by the front's, where the front exports that function.
///
/// # Safety
/// `symbol` is null or a string, and `function` null or a place that the driver has written, if `code` is 0.
unsafe fn answer(code: Code, symbol: *const c_char, function: *mut *mut c_void) {
    if !code.is_success() || symbol.is_null() || function.is_null() {
        return;
    }
    // SAFETY: not null, so the driver has written it: contract of this function.
    let place = unsafe { &mut *function };
    // SAFETY: not null, so it is a string: contract of this function.
    let symbol = unsafe { CStr::from_ptr(symbol) };
    if let Some(index) = index(place.cast_const(), symbol) {
        *place = EXPORTS[index].0.cast_mut();
    }
}

/// The function that the driver has at this address. Where several have the same code, that of the asked
/// name.
fn index(address: *const c_void, symbol: &CStr) -> Option<usize> {
    static KNOWN: OnceLock<HashMap<usize, Vec<usize>>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let mut known: HashMap<usize, Vec<usize>> = HashMap::new();
        for index in 0..NAMES.len() {
            if let Some(address) = driver::function(index) {
                known.entry(address as usize).or_default().push(index);
            }
        }
        known
    });
    let all = known.get(&(address as usize))?;
    let of_symbol = |index: &&usize| NAMES[**index].to_bytes().starts_with(symbol.to_bytes());
    all.iter().find(of_symbol).or(all.first()).copied()
}
