//! What the program asks for by `cudaLaunchKernel`.

use std::ffi::c_void;

use mgb_abi::launch::Dim3;

use crate::code::Code;
use crate::native::{Launch, Stream};

/// A launch, but for its stream.
#[derive(Clone, Copy)]
pub struct KernelCall {
    /// The runtime's function.
    pub native: Launch,
    pub kernel: *const c_void,
    pub grid: Dim3,
    pub block: Dim3,
    pub arguments: *mut *mut c_void,
    /// Bytes of dynamic shared memory.
    pub shared: usize,
}

// SAFETY: addresses, which are only handed to the runtime.
unsafe impl Send for KernelCall {}

impl KernelCall {
    /// Launches, in the runtime's stream.
    ///
    /// # Safety
    /// It meets the contract of `cudaLaunchKernel`.
    #[inline]
    pub unsafe fn launch(&self, stream: Stream) -> Code {
        // SAFETY: contract of this function.
        unsafe {
            (self.native)(
                self.kernel,
                self.grid,
                self.block,
                self.arguments,
                self.shared,
                stream,
            )
        }
    }
}
