//! The runtime's own functions: their addresses, and names for the ones that lazyrt calls itself.
//!
//! libmgb_rt links no libcudart. The addresses stand in one table that the dynamic linker fills in from
//! the program's libcudart as it loads the library; a function that this libcudart lacks reads as 0.

use std::ffi::c_void;

use mgb_abi::copy3d::Memcpy3DPeerParms;
use mgb_abi::graph::MemAllocNodeParams;
use mgb_abi::launch::{Dim3, FuncAttributes};

use crate::code::Code;
use crate::functions::{COUNT, FUNCTIONS, index};

unsafe extern "C" {
    static mgb_native: [usize; COUNT];
}

/// The address of the function at `index`, or of one that reports that it is missing.
pub fn address(index: usize) -> *const c_void {
    // SAFETY: the table has COUNT words, written before any code of the library ran.
    let address = unsafe {
        (&raw const mgb_native)
            .cast::<usize>()
            .add(index.min(COUNT - 1))
            .read()
    };
    if address == 0 {
        mgb_stderr::say!(
            "mgb: the CUDA runtime in this process has no {}; MGB needs the shared libcudart.so.13",
            FUNCTIONS[index].name
        );
        return missing as *const c_void;
    }
    address as *const c_void
}

/// Stands in for a function that the runtime lacks.
extern "C" fn missing() -> Code {
    Code::NOT_SUPPORTED
}

/// Whether the runtime has the function at `index`.
pub fn has(index: usize) -> bool {
    // SAFETY: as in `address`.
    unsafe {
        (&raw const mgb_native)
            .cast::<usize>()
            .add(index.min(COUNT - 1))
            .read()
            != 0
    }
}

/// A stream handle.
pub type Stream = *mut c_void;
/// `cudaLaunchKernel` and its like.
pub type Launch = unsafe extern "C" fn(*const c_void, Dim3, Dim3, *mut *mut c_void, usize, Stream) -> Code;
/// `cudaMemPool_t`.
pub type Pool = *mut c_void;

macro_rules! natives {
    ($(fn $name:ident($($arg:ident: $ty:ty),*);)*) => { $(
        /// The runtime's own function of this name.
        ///
        /// # Safety
        /// The arguments are valid for that function: its contract in CUDA.
        #[allow(non_snake_case)]
        pub unsafe fn $name($($arg: $ty),*) -> Code {
            type Real = unsafe extern "C" fn($($ty),*) -> Code;
            // SAFETY: the type is the header's.
            let real = unsafe { std::mem::transmute::<*const c_void, Real>(address(index::$name)) };
            // SAFETY: the arguments are valid for the function of this name: contract of the wrapper.
            unsafe { real($($arg),*) }
        }
    )* };
}

natives! {
    fn cudaSetDevice(device: i32);
    fn cudaGetDeviceCount(count: *mut i32);
    fn cudaDeviceSynchronize();
    fn cudaDeviceReset();
    fn cudaStreamQuery(stream: Stream);
    fn cudaDeviceSetLimit(limit: u32, value: usize);
    fn cudaGetLastError();
    fn cudaPeekAtLastError();
    fn cudaMemcpy(dst: *mut c_void, src: *const c_void, count: usize, kind: u32);
    fn cudaMemcpyAsync(dst: *mut c_void, src: *const c_void, count: usize, kind: u32, stream: Stream);
    fn cudaMemcpyPeer(dst: *mut c_void, dst_device: i32, src: *const c_void, src_device: i32, count: usize);
    fn cudaMemcpyPeerAsync(dst: *mut c_void, dst_device: i32, src: *const c_void, src_device: i32, count: usize, stream: Stream);
    fn cudaMemcpy3DPeer(parameters: *const Memcpy3DPeerParms);
    fn cudaMemcpy3DPeerAsync(parameters: *const Memcpy3DPeerParms, stream: Stream);
    fn cudaDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32);
    fn cudaDeviceEnablePeerAccess(peer: i32, flags: u32);
    fn cudaGetSymbolAddress(address: *mut *mut c_void, symbol: *const c_void);
    fn cudaGetSymbolSize(size: *mut usize, symbol: *const c_void);
    fn cudaMemsetAsync(dst: *mut c_void, value: i32, count: usize, stream: Stream);
    fn cudaMemcpyToSymbolAsync(symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: u32, stream: Stream);
    fn cudaStreamCreateWithFlags(stream: *mut Stream, flags: u32);
    fn cudaFreeAsync(pointer: *mut c_void, stream: Stream);
    fn cudaDeviceGetMemPool(pool: *mut Pool, device: i32);
    fn cudaMemPoolGetAttribute(pool: Pool, attribute: u32, value: *mut c_void);
    fn cudaMemPoolTrimTo(pool: Pool, keep: usize);
    fn cudaDeviceGetGraphMemAttribute(device: i32, attribute: u32, value: *mut c_void);
    fn cudaDeviceGraphMemTrim(device: i32);
    fn cudaGraphGetNodes(graph: *mut c_void, nodes: *mut *mut c_void, count: *mut usize);
    fn cudaGraphGetEdges(graph: *mut c_void, from: *mut *mut c_void, to: *mut *mut c_void, data: *mut c_void, count: *mut usize);
    fn cudaGraphUpload(exec: *mut c_void, stream: Stream);
    fn cudaGraphNodeGetType(node: *mut c_void, kind: *mut u32);
    fn cudaGraphMemAllocNodeGetParams(node: *mut c_void, params: *mut MemAllocNodeParams);
    fn cudaGraphMemFreeNodeGetParams(node: *mut c_void, address: *mut *mut c_void);
    fn cudaGraphChildGraphNodeGetGraph(node: *mut c_void, graph: *mut *mut c_void);
    fn cudaThreadExchangeStreamCaptureMode(mode: *mut u32);
    fn cudaStreamSynchronize(stream: Stream);
    fn cudaEventCreateWithFlags(event: *mut *mut c_void, flags: u32);
    fn cudaEventRecord(event: *mut c_void, stream: Stream);
    fn cudaEventSynchronize(event: *mut c_void);
    fn cudaEventDestroy(event: *mut c_void);
    fn cudaEventQuery(event: *mut c_void);
    fn cudaEventElapsedTime(milliseconds: *mut f32, begin: *mut c_void, end: *mut c_void);
    fn cudaStreamGetDevice(stream: Stream, device: *mut i32);
    fn cudaStreamIsCapturing(stream: Stream, status: *mut i32);
    fn cudaMemRangeGetAttribute(data: *mut c_void, room: usize, attribute: u32, pointer: *const c_void, count: usize);
    fn cudaMemGetInfo(free: *mut usize, total: *mut usize);
    fn cudaStreamCreateWithPriority(stream: *mut Stream, flags: u32, priority: i32);
    fn cudaStreamDestroy(stream: Stream);
    fn cudaStreamWaitEvent(stream: Stream, event: *mut c_void, flags: u32);
    fn cudaHostRegister(pointer: *mut c_void, bytes: usize, flags: u32);
    fn cudaHostUnregister(pointer: *mut c_void);
    fn cudaHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: u32);
    fn cudaFuncSetAttribute(function: *const c_void, attribute: u32, value: i32);
    fn cudaFuncSetCacheConfig(function: *const c_void, config: u32);
    fn cudaDeviceSetCacheConfig(config: u32);
    fn cudaSetDeviceFlags(flags: u32);
    fn cudaMalloc(out: *mut *mut c_void, bytes: usize);
    fn cudaFuncGetAttributes(attributes: *mut FuncAttributes, function: *const c_void);
    fn cudaGetDevice(device: *mut i32);
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut i32, function: *const c_void, threads: i32, shared: usize);
    fn cudaDeviceGetAttribute(value: *mut i32, attribute: u32, device: i32);
}
