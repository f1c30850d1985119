//! Beginning, ending, versions, error texts.

use std::ffi::{c_char, c_int, c_uint};

use super::{Refusal, health, nvml, put, put_text, users};
use crate::config::profile;
use crate::state;

fn initialize() -> Result<(), Refusal> {
    crate::fail::prepare().map_err(|_| Refusal::DriverNotLoaded)?;
    crate::fail::await_nvml();
    let state = state::shared().map_err(|_| Refusal::DriverNotLoaded)?;
    health::begin(state.devices().len());
    users::add();
    Ok(())
}

nvml! {
    fn nvmlInit() {
        initialize()
    }

    fn nvmlInit_v2() {
        initialize()
    }

    fn nvmlInitWithFlags(_flags: c_uint) {
        initialize()
    }

    fn nvmlShutdown() {
        if users::remove() { Ok(()) } else { Err(Refusal::Uninitialized) }
    }

    fn nvmlSystemGetDriverVersion(text: *mut c_char, length: c_uint) {
        super::shared()?;
        // SAFETY: the buffer is null or has room for `length` bytes: NVML's contract of the function.
        unsafe { put_text(text, length, profile::DRIVER_VERSION) }
    }

    fn nvmlSystemGetNVMLVersion(text: *mut c_char, length: c_uint) {
        // SAFETY: the buffer is null or has room for `length` bytes: NVML's contract of the function.
        unsafe { put_text(text, length, concat!("13.", env!("CARGO_PKG_VERSION"))) }
    }

    fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) {
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(version, profile::CUDA_VERSION) }
    }

    fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) {
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(version, profile::CUDA_VERSION) }
    }
}

/// Implements NVML's `nvmlErrorString`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(code: c_int) -> *const c_char {
    let text = match code {
        0 => c"success",
        1 => c"not initialized",
        2 => c"invalid argument",
        3 => c"not supported",
        6 => c"not found",
        7 => c"buffer too small",
        9 => c"driver not loaded",
        10 => c"no event in time",
        15 => c"the GPU has fallen off the bus",
        _ => c"unknown error",
    };
    text.as_ptr()
}
