//! The driver API, `libcuda.so.1`: the functions that lazyrt and the tests use, over the same devices,
//! memory and contexts as the runtime.

pub mod context;
pub mod copy;
pub mod device;
pub mod entry;
pub mod memory;
pub mod streams;
pub mod vmm;

use std::ffi::c_void;

use crate::device::{Gpu, node};
use crate::entry::caught;
use crate::error::{Error, Result, code};

/// A function of the driver, for those that look it up by name.
pub struct Export {
    /// Its symbol.
    pub name: &'static str,
    /// Where it is.
    pub address: *const c_void,
}

// SAFETY: the address of a function is valid in all threads.
unsafe impl Sync for Export {}

/// Runs the body of a driver function. The runtime's last error is not touched.
fn call(name: &str, body: impl FnOnce() -> Result) -> i32 {
    code(caught(name, body))
}

/// Defines driver functions, and the table of them.
macro_rules! driver {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$meta])*
            #[doc = concat!("CUDA's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// Pointers are as CUDA's documentation of the function asks.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> i32 {
                $crate::driver::call(stringify!($name), || $body)
            }
        )*

        /// This file's functions.
        pub static EXPORTS: &[$crate::driver::Export] = &[
            $($crate::driver::Export { name: stringify!($name), address: $name as *const std::ffi::c_void }),*
        ];
    };
}
use driver;

/// A device by its `CUdevice`.
fn gpu(device: i32) -> Result<&'static Gpu> {
    node()?.gpu(device)
}

/// A `CUcontext`: the address of its device.
fn context_of(gpu: &'static Gpu) -> usize {
    std::ptr::from_ref(gpu) as usize
}

/// The device of a `CUcontext`.
fn gpu_of(context: usize) -> Result<&'static Gpu> {
    node()?
        .gpus()
        .iter()
        .find(|gpu| context_of(gpu) == context)
        .ok_or(Error::INVALID_CONTEXT)
}

/// The device whose context is current, which most functions need.
fn current() -> Result<&'static Gpu> {
    let gpu = crate::device::current::context().ok_or(Error::INVALID_CONTEXT)?;
    gpu.check()?;
    Ok(gpu)
}
