//! What softgpu's library tells beyond NVML.

use std::ffi::{c_int, c_ulonglong, c_void};

use libloading::Library;
use nvml_wrapper::Device;

type ContextBytes = unsafe extern "C" fn(*mut c_void, *mut c_ulonglong) -> c_int;

/// Bytes that a process's context takes on a software GPU; `None` if `library`, which NVML was initialized
/// from, is not softgpu's, or is an older one.
pub(super) fn context_bytes(device: &Device<'_>, library: &str) -> Option<u64> {
    // SAFETY: NVML was initialized from this library: its initializers ran already.
    let library = unsafe { Library::new(library) }.ok()?;
    // SAFETY: softgpu exports the function with this signature; nobody else exports one of this name.
    let ask = unsafe { library.get::<ContextBytes>(b"softgpuDeviceGetContextBytes\0") }.ok()?;
    let mut bytes = 0;
    // SAFETY: a handle of that library, and a counter to write.
    let code = unsafe { ask(device.handle().cast(), &mut bytes) };
    (code == 0).then_some(bytes)
}
