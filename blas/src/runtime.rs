//! The functions of the software GPU that this library calls: the runtime's, as any program does, and the one
//! that takes kernels.

use std::ffi::{c_int, c_void};

use mgb_abi::image::Image;
use mgb_abi::launch::Dim3;

/// `cudaStream_t`: this library only passes it on.
pub type StreamHandle = usize;

#[allow(missing_docs, reason = "CUDA documents them")]
unsafe extern "C" {
    pub fn cudaFree(pointer: *mut c_void) -> c_int;
    pub fn cudaLaunchKernel(
        stub: *const c_void,
        grid: Dim3,
        block: Dim3,
        arguments: *mut *mut c_void,
        shared: usize,
        stream: StreamHandle,
    ) -> c_int;
    pub fn cudaMemcpy2D(
        to: *mut c_void,
        to_pitch: usize,
        from: *const c_void,
        from_pitch: usize,
        width: usize,
        height: usize,
        kind: c_int,
    ) -> c_int;
    pub fn cudaMemcpy2DAsync(
        to: *mut c_void,
        to_pitch: usize,
        from: *const c_void,
        from_pitch: usize,
        width: usize,
        height: usize,
        kind: c_int,
        stream: StreamHandle,
    ) -> c_int;
    pub fn cudaRuntimeGetVersion(version: *mut c_int) -> c_int;
    pub fn cudaStreamSynchronize(stream: StreamHandle) -> c_int;
    pub fn __softgpuRegisterImage(image: *const Image);
}
