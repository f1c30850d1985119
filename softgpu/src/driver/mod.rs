//! The driver API, `libcuda.so.1`: the functions that programs, and the runtime behind a driver front
//! use, over the same devices, memory and contexts as the runtime.
//!
//! What a function does is an ordinary function beside it, which the runtime calls where there is no front.
//! The build script makes the `_ptsz` and `_ptds` forms.

pub mod array;
pub mod capture;
pub mod context;
pub mod copy;
pub mod copy_box;
pub mod device;
pub mod entry;
pub mod events;
pub mod forms;
pub mod graph;
pub mod host;
pub mod ipc;
pub mod launch;
pub mod memory;
pub mod pool;
pub mod set;
pub mod stream;
pub mod streams;
pub mod surface;
pub mod texture;
pub mod vmm;

use std::ffi::c_void;
use std::sync::Arc;

use mgb_abi::stream::{STREAM_LEGACY, STREAM_PER_THREAD};

use crate::device::{Gpu, is_forked, node};
use crate::entry::caught;
use crate::error::{Error, Result, code, of_driver};
use crate::exec::threads;
use crate::stream::{DeviceStream, handle};

/// A function of the driver, for those that look it up by name.
pub struct Export {
    /// The symbol of the function.
    pub name: &'static str,
    /// Where it is.
    pub address: *const c_void,
}

// SAFETY: the address of a function is valid in all threads.
unsafe impl Sync for Export {}

/// The functions that need no driver that is initialised.
const ALWAYS: [&str; 5] = [
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
];

/// Runs the body of a driver function. The runtime's last error is not touched. In a forked child all fail,
/// as NVIDIA's do.
fn call(name: &str, body: impl FnOnce() -> Result) -> i32 {
    if is_forked() && !ALWAYS.contains(&name) {
        return of_driver(code(Err::<(), Error>(Error::INITIALIZATION)));
    }
    of_driver(code(caught(name, || threads::running().and_then(|()| body()))))
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
            #[allow(clippy::too_many_arguments)]
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

/// The device of a `CUcontext`.
fn gpu_of(context: usize) -> Result<&'static Gpu> {
    node()?
        .gpus()
        .iter()
        .find(|gpu| gpu.context_handle() == context)
        .ok_or(Error::INVALID_CONTEXT)
}

/// The device whose context is current, which most functions need.
fn current() -> Result<&'static Gpu> {
    let gpu = crate::device::current::context().ok_or(Error::INVALID_CONTEXT)?;
    gpu.check()?;
    Ok(gpu)
}

/// The stream that a handle names, and its device, with a healthy context. A default stream is that of the
/// current context; any other one names its own.
fn stream(handle: usize) -> Result<(&'static Gpu, Arc<DeviceStream>)> {
    if handle > STREAM_PER_THREAD {
        let stream = handle::find(handle)?;
        let gpu = gpu(stream.ordinal as i32)?;
        gpu.check()?;
        return Ok((gpu, stream));
    }
    let gpu = current()?;
    let own = handle == STREAM_PER_THREAD || (handle != STREAM_LEGACY && handle::own_default());
    let stream = if own {
        gpu.streams.per_thread()
    } else {
        gpu.streams.legacy().clone()
    };
    Ok((gpu, stream))
}
