//! The CUDA driver that the program's runtime uses, loaded and initialised.
//!
//! Loaders of others look for `libcuda.so` first, which need not be that library. What is missing is named.

use std::ffi::CStr;

use mgb_core::backoff::Backoff;
pub use mgb_core::driver::Driver;
use mgb_core::{libraries, notice};

/// Loads the driver and initialises it. The error says what is missing.
pub fn initialise() -> Result<Driver, String> {
    // SAFETY: a C string; loading the driver runs only its own constructors.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: dlerror returns null or a C string that holds until the thread's next dl call.
        let why = unsafe {
            let text = libc::dlerror();
            if text.is_null() {
                String::new()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        return Err(format!(
            "failed to load the CUDA driver: {why}; install NVIDIA's driver, or start the program with `mgb run`, \
             which puts the software GPU in its place"
        ));
    }
    // SAFETY: the handle was just opened and is never closed.
    let library = unsafe { libraries::same_software_gpu(library) };
    // SAFETY: a C string, and a handle that is never closed.
    let find = |name: &CStr| unsafe { libc::dlsym(library, name.as_ptr()) }.cast_const();
    // SAFETY: functions of the driver, or null.
    let driver = unsafe { Driver::find(find) }
        .map_err(|name| format!("libcuda.so.1 has no {name}, which MGB needs; use a driver for CUDA 13"))?;
    let mut backoff = Backoff::begin();
    loop {
        let code = driver.initialise();
        if code.is_success() {
            return Ok(driver);
        }
        if !backoff.again(code, notice::unavailable) {
            return Err(format!(
                "cuInit failed: {code}; is there a GPU that this process may use?"
            ));
        }
    }
}
