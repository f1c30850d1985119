//! `cuGetProcAddress`: the driver picks the version of a function, the front answers with its own address of
//! it.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_ulonglong, c_void};
use std::sync::OnceLock;

use crate::driver;
use crate::jumps::EXPORTS;
use crate::names::NAMES;

type Ask = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, c_ulonglong) -> c_int;
type AskWithStatus =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, c_ulonglong, *mut c_int) -> c_int;

/// CUDA's `cuGetProcAddress`.
///
/// # Safety
/// As CUDA's documentation of the function asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: c_ulonglong,
) -> c_int {
    let Some(ask) = driver::symbol(c"cuGetProcAddress") else {
        return driver::NOT_FOUND;
    };
    // SAFETY: the driver's function of this name has this signature.
    let ask = unsafe { std::mem::transmute::<*const c_void, Ask>(ask) };
    // SAFETY: the caller's arguments, by the same contract.
    let code = unsafe { ask(symbol, function, version, flags) };
    // SAFETY: the same arguments, after the driver's answer.
    unsafe { answer(code, symbol, function) };
    code
}

/// CUDA's `cuGetProcAddress_v2`.
///
/// # Safety
/// As CUDA's documentation of the function asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: c_ulonglong,
    status: *mut c_int,
) -> c_int {
    let Some(ask) = driver::symbol(c"cuGetProcAddress_v2") else {
        return driver::NOT_FOUND;
    };
    // SAFETY: the driver's function of this name has this signature.
    let ask = unsafe { std::mem::transmute::<*const c_void, AskWithStatus>(ask) };
    // SAFETY: the caller's arguments, by the same contract.
    let code = unsafe { ask(symbol, function, version, flags, status) };
    // SAFETY: the same arguments, after the driver's answer.
    unsafe { answer(code, symbol, function) };
    code
}

/// Replaces the driver's address by the front's, where the front exports that function.
///
/// # Safety
/// `symbol` is null or a string, and `function` null or a place that the driver has written, if `code` is 0.
unsafe fn answer(code: c_int, symbol: *const c_char, function: *mut *mut c_void) {
    if code != 0 || symbol.is_null() || function.is_null() {
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
