//! What softgpu's library tells beyond NVML.

use std::ffi::{c_int, c_ulonglong, c_void};

use libloading::Library;
use nvml_wrapper::Device;

type ContextBytes = unsafe extern "C" fn(*mut c_void, *mut c_ulonglong) -> c_int;

/// Bytes that a process's context takes on a software GPU; `None` if this is not softgpu's library, or an older one.
pub(super) fn context_bytes(device: &Device<'_>) -> Option<u64> {
    // SAFETY: the library that NVML was initialized from, loaded and initialized already.
    let library = unsafe { Library::new(super::nvml::LIBRARY) }.ok()?;
    // SAFETY: softgpu exports the function with this signature; nobody else exports one of this name.
    let ask = unsafe { library.get::<ContextBytes>(b"softgpuDeviceGetContextBytes\0") }.ok()?;
    let mut bytes = 0;
    // SAFETY: a handle of that library, and a counter to write.
    let code = unsafe { ask(device.handle().cast(), &mut bytes) };
    (code == 0).then_some(bytes)
}
