//! NVML, by which programs and nvidia-smi look at GPUs. The front is its library `libnvidia-ml.so.1` as well:
//! there the GPUs have the numbers that CUDA gives them in this job, which may not be the node's. Every
//! other function is NVIDIA's.
//!
//! NVML is told by handles, and those of this library are NVIDIA's: numbers alone are translated. A process
//! that looks before its job has a GPU sees the node's numbers.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::names::{COUNT, NVML};
use crate::search::{self, Library};

/// NVML's `NVML_SUCCESS`: the call has done what was asked.
const SUCCESS: c_int = 0;
/// NVML's `NVML_ERROR_LIBRARY_NOT_FOUND`: the front has found no library of NVIDIA's.
const NO_LIBRARY: c_int = 12;
/// NVML's `NVML_ERROR_FUNCTION_NOT_FOUND`: NVIDIA's library has no such function.
const NO_FUNCTION: c_int = 13;

unsafe extern "C" {
    /// Where each function's jump leads; written by the build script.
    #[link_name = "mgb_front_nvml_slots"]
    static SLOTS: [AtomicUsize; NVML.len()];
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(search::load_nvml)
}

/// Puts NVIDIA's function into its slot, where `index` counts from the driver's first function. Returns where
/// to jump.
pub fn settle(index: usize) -> *const c_void {
    let at = index - COUNT;
    let address = library().function(NVML[at]).unwrap_or_else(|| stand_in(NVML[at]));
    // SAFETY: the build script's table, which has an entry for each function and is never moved.
    unsafe { &SLOTS[at] }.store(address as usize, Ordering::Release);
    address
}

/// What is called instead of a function that is not there.
fn stand_in(name: &CStr) -> *const c_void {
    match failure() {
        _ if name == c"nvmlErrorString" => no_text as *const c_void,
        NO_LIBRARY => no_library as *const c_void,
        _ => no_function as *const c_void,
    }
}

/// What a function that is not there answers.
fn failure() -> c_int {
    if library().exists() {
        NO_FUNCTION
    } else {
        NO_LIBRARY
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

/// The numbers that stand for another GPU in this job, each with that GPU's own number.
fn renumbered() -> Vec<(c_uint, c_uint)> {
    // Where mgbd does not answer, what it said last still holds.
    static LAST: Mutex<Vec<(u32, u32)>> = Mutex::new(Vec::new());
    let now = mgb_probe::numbered_gpus();
    let mut last = LAST.lock();
    if let Ok(now) = now {
        *last = now;
    }
    last.clone()
}

/// The node's number of the GPU that a number stands for in this job.
fn of_node(number: c_uint) -> c_uint {
    let pairs = renumbered();
    let found = pairs.into_iter().find(|(in_job, _)| *in_job == number);
    found.map_or(number, |(_, of_node)| of_node)
}

/// The job's number of the GPU with this number of the node's.
fn in_job(number: c_uint) -> c_uint {
    let pairs = renumbered();
    let found = pairs.into_iter().find(|(_, of_node)| *of_node == number);
    found.map_or(number, |(in_job, _)| in_job)
}

/// A device as NVML has it.
type Device = *mut c_void;

/// Calls NVIDIA's function of this name, and tells whether that was called by another one of these.
///
/// # Safety
/// `F` is the type of the function, a pointer.
unsafe fn with<F: Copy>(name: &CStr, call: impl FnOnce(F, bool) -> c_int) -> c_int {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    let Some(address) = library().function(name) else {
        return failure();
    };
    let is_nested = INSIDE.replace(true);
    // SAFETY: the caller's promise.
    let code = call(unsafe { std::mem::transmute_copy(&address) }, is_nested);
    INSIDE.set(is_nested);
    code
}

/// # Safety
/// `device` is what NVML asks for.
unsafe fn by_index(name: &CStr, number: c_uint, device: *mut Device) -> c_int {
    type Native = unsafe extern "C" fn(c_uint, *mut Device) -> c_int;
    let call = |native: Native, is_nested| {
        let number = if is_nested { number } else { of_node(number) };
        // SAFETY: the caller's promise.
        unsafe { native(number, device) }
    };
    // SAFETY: both versions have this signature.
    unsafe { with(name, call) }
}

/// NVML's `nvmlDeviceGetHandleByIndex`.
///
/// # Safety
/// As NVML's documentation of the function asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex(number: c_uint, device: *mut Device) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { by_index(c"nvmlDeviceGetHandleByIndex", number, device) }
}

/// NVML's `nvmlDeviceGetHandleByIndex_v2`.
///
/// # Safety
/// As NVML's documentation of the function asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(number: c_uint, device: *mut Device) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { by_index(c"nvmlDeviceGetHandleByIndex_v2", number, device) }
}

/// NVML's `nvmlDeviceGetIndex`.
///
/// # Safety
/// As NVML's documentation of the function asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(device: Device, number: *mut c_uint) -> c_int {
    type Native = unsafe extern "C" fn(Device, *mut c_uint) -> c_int;
    let call = |native: Native, is_nested: bool| {
        // SAFETY: the caller's promise.
        let code = unsafe { native(device, number) };
        // SAFETY: null, or the place that NVIDIA's function has written, if it succeeded.
        if let Some(number) = unsafe { number.as_mut() }
            && code == SUCCESS
            && !is_nested
        {
            *number = in_job(*number);
        }
        code
    };
    // SAFETY: it has this signature.
    unsafe { with(c"nvmlDeviceGetIndex", call) }
}
