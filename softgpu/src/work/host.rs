//! Calls of the program's functions in a stream's turn.

use std::ffi::{c_int, c_void};

use crate::clock;
use crate::device::Gpu;
use crate::time::host;

/// `cudaHostFn_t`.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// `cudaStreamCallback_t`.
pub type Callback = unsafe extern "C" fn(usize, c_int, *mut c_void);

/// A function to call, and its argument.
#[derive(Clone, Copy, Debug)]
pub struct HostCall {
    /// The host function that is called.
    pub function: HostCallback,
    /// The program's own.
    pub data: UserData,
}

/// Either kind of function.
#[derive(Clone, Copy, Debug)]
pub enum HostCallback {
    /// `cudaLaunchHostFunc`: not called once the device is stuck.
    Plain(HostFunction),
    /// `cudaStreamAddCallback`: called with the stream, and with the device's error.
    Callback(Callback, usize),
}

/// A pointer of the program's, on its way to a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserData(pub *mut c_void);

// SAFETY: softgpu only passes the pointer back and never reads through it.
unsafe impl Send for UserData {}
// SAFETY: softgpu never reads through the pointer.
unsafe impl Sync for UserData {}

impl HostCall {
    /// Calls it once the device's clock has come to `ready`; returns when it ended.
    pub fn run(&self, gpu: &Gpu, ready: u64) -> u64 {
        clock::sleep_until(ready);
        let stuck = gpu.check();
        // SAFETY: the program's function is called with the argument that the program gave for it: CUDA's
        // contract.
        unsafe {
            match self.function {
                HostCallback::Plain(function) if stuck.is_ok() => function(self.data.0),
                HostCallback::Plain(_) => {}
                HostCallback::Callback(callback, stream) => {
                    callback(stream, crate::error::code(stuck), self.data.0);
                }
            }
        }
        host::called(ready)
    }
}
