//! NVML, by which programs and nvidia-smi look at GPUs. The front is its library `libnvidia-ml.so.1` as well:
//! there the GPUs have the numbers that CUDA gives them in this job, where two may have changed places. Every
//! other function is NVIDIA's.
//!
//! NVML is told by handles, and those of this library are NVIDIA's: numbers alone are exchanged. A process
//! that looks before its job has a GPU sees the node's numbers.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::names::{COUNT, NVML};
use crate::search;

/// NVML's `NVML_SUCCESS`,
const SUCCESS: c_int = 0;
/// `NVML_ERROR_LIBRARY_NOT_FOUND`
const NO_LIBRARY: c_int = 12;
/// and `NVML_ERROR_FUNCTION_NOT_FOUND`.
const NO_FUNCTION: c_int = 13;

unsafe extern "C" {
    /// Where each function's jump leads; written by the build script.
    #[link_name = "mgb_front_nvml_slots"]
    static SLOTS: [AtomicUsize; NVML.len()];
}

/// NVIDIA's library; none where there is none.
struct Library(Option<*mut c_void>);

// SAFETY: a handle of the dynamic linker may be used by any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

fn library() -> Option<*mut c_void> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library(search::load_nvml())).0
}

/// Puts NVIDIA's function into its slot, where `index` counts from the driver's first function. Returns where
/// to jump.
pub fn settle(index: usize) -> *const c_void {
    let at = index - COUNT;
    let address = function(NVML[at]).unwrap_or_else(|| stand_in(NVML[at]));
    // SAFETY: the build script's table, which has an entry for each function and is never moved.
    unsafe { &SLOTS[at] }.store(address as usize, Ordering::Release);
    address
}

fn function(name: &CStr) -> Option<*const c_void> {
    // SAFETY: a handle that is never closed, and a C string.
    let address = unsafe { libc::dlsym(library()?, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const())
}

/// What is called instead of a function that is not there.
fn stand_in(name: &CStr) -> *const c_void {
    if name == c"nvmlErrorString" {
        no_text as *const c_void
    } else if library().is_none() {
        no_library as *const c_void
    } else {
        no_function as *const c_void
    }
}

extern "C" fn no_library() -> c_int {
    NO_LIBRARY
}

extern "C" fn no_function() -> c_int {
    NO_FUNCTION
}

extern "C" fn no_text() -> *const c_char {
    c"NVIDIA's NVML library was not found".as_ptr()
}

thread_local! {
    /// Whether the thread is in one of the functions below: NVIDIA's may call each other by name.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The number that a number stands for in this job, the same in both directions.
fn exchanged(number: c_uint) -> c_uint {
    match mgb_probe::exchanged_gpus() {
        Some([one, other]) if number == one => other,
        Some([one, other]) if number == other => one,
        _ => number,
    }
}

/// A device as NVML has it.
type Device = *mut c_void;

fn by_index(name: &CStr, number: c_uint, device: *mut Device) -> c_int {
    let Some(address) = function(name) else {
        return if library().is_none() {
            NO_LIBRARY
        } else {
            NO_FUNCTION
        };
    };
    type Native = unsafe extern "C" fn(c_uint, *mut Device) -> c_int;
    // SAFETY: NVIDIA's function of this name has this signature.
    let native = unsafe { std::mem::transmute::<*const c_void, Native>(address) };
    let is_nested = INSIDE.replace(true);
    let number = if is_nested { number } else { exchanged(number) };
    // SAFETY: as the caller of the function promises.
    let code = unsafe { native(number, device) };
    INSIDE.set(is_nested);
    code
}

/// NVML's `nvmlDeviceGetHandleByIndex`.
///
/// # Safety
/// As NVML's documentation of the function asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex(number: c_uint, device: *mut Device) -> c_int {
    by_index(c"nvmlDeviceGetHandleByIndex", number, device)
}

/// NVML's `nvmlDeviceGetHandleByIndex_v2`.
///
/// # Safety
/// As NVML's documentation of the function asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(number: c_uint, device: *mut Device) -> c_int {
    by_index(c"nvmlDeviceGetHandleByIndex_v2", number, device)
}

/// NVML's `nvmlDeviceGetIndex`.
///
/// # Safety
/// As NVML's documentation of the function asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(device: Device, number: *mut c_uint) -> c_int {
    let Some(address) = function(c"nvmlDeviceGetIndex") else {
        return if library().is_none() {
            NO_LIBRARY
        } else {
            NO_FUNCTION
        };
    };
    type Native = unsafe extern "C" fn(Device, *mut c_uint) -> c_int;
    // SAFETY: NVIDIA's function of this name has this signature.
    let native = unsafe { std::mem::transmute::<*const c_void, Native>(address) };
    let is_nested = INSIDE.replace(true);
    // SAFETY: as the caller promises.
    let code = unsafe { native(device, number) };
    // SAFETY: NVIDIA's function has written it.
    if let Some(number) = unsafe { number.as_mut() }
        && code == SUCCESS
        && !is_nested
    {
        *number = exchanged(*number);
    }
    INSIDE.set(is_nested);
    code
}
