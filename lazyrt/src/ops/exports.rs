//! What programs call: `mgb_` and the function's name, for every function with a treatment of its own.

use std::ffi::c_void;

use mgb_abi::array::ChannelFormatDesc;
use mgb_abi::copy::MemcpyAttributes;
use mgb_abi::copy3d::{CudaExtent, Memcpy3DBatchOp, Memcpy3DParms, Memcpy3DPeerParms, PitchedPtr};
use mgb_abi::graph::{GraphInstantiateParams, GraphNodeParams, MemAllocNodeParams};
use mgb_abi::launch::{Dim3, LaunchConfig};
use mgb_abi::location::MemLocation;
use mgb_abi::pointer::PointerAttributes;
use mgb_abi::pool::{MemAccessDesc, MemPoolProps};
use mgb_core::gate;
use mgb_core::work;
use mgb_probe::cancel;

use super::non_arena::Array;
use super::stream::Callback;
use super::{
    alloc, batch, boxes, capture, copy, device, errors, event, free, function, graphs, host, information,
    launch, limits, locations, node, non_arena, peers, pointers, pools, ranges, rows, set, stream, symbol,
    sync,
};
use crate::code::{Code, Own};
use crate::functions::index;
use crate::native::{self, Pool, Stream};
use crate::session::{Mode, mode};
use crate::{fault, in_flight, thread};

/// A forked child of a process that had used CUDA: as CUDA answers there.
#[cold]
fn forked() -> Code {
    errors::record(Code::INITIALIZATION);
    Code::INITIALIZATION
}

/// Whether a function takes the default stream for the calling thread's own, as names in `_ptsz` and `_ptds`
/// say.
const fn is_per_thread(name: &str) -> bool {
    let [.., b'_', b'p', b't', kind, last] = name.as_bytes() else {
        return false;
    };
    matches!((kind, last), (b's', b'z') | (b'd', b's'))
}

/// Whether the function only tells of errors: also in a forked child, and also of those of a context that is gone
/// or another device's.
const fn tells_of_errors(name: &str) -> bool {
    matches!(name.as_bytes(), b"cudaGetLastError" | b"cudaPeekAtLastError")
}

/// Whether the function launches kernels, and so has no time to spare: what makes it wait sees to it that the
/// thread is not cancelled.
const fn is_launch(name: &str) -> bool {
    matches!(
        name.as_bytes(),
        [b'c', b'u', b'd', b'a', b'L', b'a', b'u', b'n', b'c', b'h', ..]
    )
}

/// Whether the function sees to launches in parts that are in flight by itself, as those that are in a stream
/// do, or comes behind none of them: an event was recorded behind whole ones. Before all others they are to be whole.
const fn settles_by_itself(name: &str) -> bool {
    matches!(
        name.as_bytes(),
        b"cudaLaunchKernel"
            | b"cudaLaunchKernel_ptsz"
            | b"__cudaLaunchKernel"
            | b"__cudaLaunchKernel_ptsz"
            | b"cudaLaunchCooperativeKernel"
            | b"cudaLaunchCooperativeKernel_ptsz"
            | b"cudaLaunchKernelExC"
            | b"cudaLaunchKernelExC_ptsz"
            | b"cudaMemcpyAsync"
            | b"cudaMemcpyAsync_ptsz"
            | b"cudaMemcpy2DAsync"
            | b"cudaMemcpy2DAsync_ptsz"
            | b"cudaMemsetAsync"
            | b"cudaMemsetAsync_ptsz"
            | b"cudaMemset2DAsync"
            | b"cudaMemset2DAsync_ptsz"
            | b"cudaEventRecord"
            | b"cudaEventRecord_ptsz"
            | b"cudaStreamSynchronize"
            | b"cudaStreamSynchronize_ptsz"
            | b"cudaStreamQuery"
            | b"cudaStreamQuery_ptsz"
            | b"cudaStreamWaitEvent"
            | b"cudaStreamWaitEvent_ptsz"
            | b"cudaEventQuery"
            | b"cudaEventSynchronize"
            | b"cudaEventElapsedTime"
            | b"cudaEventCreate"
            | b"cudaEventCreateWithFlags"
            | b"cudaStreamCreate"
            | b"cudaStreamCreateWithFlags"
            | b"cudaStreamCreateWithPriority"
            | b"cudaGetLastError"
            | b"cudaPeekAtLastError"
            | b"cudaGetDevice"
            | b"cudaSetDevice"
    )
}

/// Whether the function ends contexts, and with them what it answers about them.
const fn ends_contexts(name: &str) -> bool {
    matches!(name.as_bytes(), b"cudaDeviceReset")
}

macro_rules! exports {
    ($($treat:path: fn $($name:ident)|+ ($($arg:ident: $ty:ty),*);)*) => { $(
        exports!(@each $treat, ($($name)|+) ($($arg: $ty),*));
    )* };
    (@each $treat:path, ($first:ident | $($rest:ident)|+) $args:tt) => {
        exports!(@one $treat, $first $args);
        exports!(@each $treat, ($($rest)|+) $args);
    };
    (@each $treat:path, ($only:ident) $args:tt) => {
        exports!(@one $treat, $only $args);
    };
    (@one $treat:path, $name:ident ($($arg:ident: $ty:ty),*)) => {
        /// The function of the runtime, under MGB.
        ///
        /// # Safety
        /// The arguments meet the contract of the function of this name in CUDA.
        #[unsafe(export_name = concat!("mgb_", stringify!($name)))]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> Code {
            type Real = unsafe extern "C" fn($($ty),*) -> Code;
            // SAFETY: the address is the function's, or of one that takes anything; the type is the header's.
            let real = unsafe { std::mem::transmute::<*const c_void, Real>(native::address(index::$name)) };
            match mode() {
                Mode::Mgb => {}
                // SAFETY: the arguments are those that the program passed to the function of this name: its
                // contract in CUDA.
                Mode::Native => return unsafe { real($($arg),*) },
                Mode::Forked if const { tells_of_errors(stringify!($name)) } => {}
                Mode::Forked => return forked(),
            }
            let _stays = const { !is_launch(stringify!($name)) }.then(cancel::hold);
            gate::note_return();
            if const { !settles_by_itself(stringify!($name)) } {
                in_flight::settle();
            }
            if const { is_per_thread(stringify!($name)) } {
                work::note_stream();
                thread::with(|thread| thread.set_per_thread(true));
            }
            // SAFETY: the contract of the runtime's function is that of the treatment.
            let answer = unsafe { $treat(real, $($arg),*) };
            if const { is_per_thread(stringify!($name)) } {
                thread::with(|thread| thread.set_per_thread(false));
            }
            match answer {
                Ok(code) => {
                    let is_news = const {
                        !ends_contexts(stringify!($name)) && !tells_of_errors(stringify!($name))
                    };
                    if is_news && !code.is_success() {
                        fault::note(code);
                    }
                    code
                }
                Err(Own(code)) => {
                    errors::record(code);
                    code
                }
            }
        }
    };
}

exports! {
    alloc::malloc: fn cudaMalloc(out: *mut *mut c_void, bytes: usize);
    alloc::malloc_pitch: fn cudaMallocPitch(
        out: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize);
    non_arena::malloc_managed: fn cudaMallocManaged(out: *mut *mut c_void, bytes: usize, flags: u32);
    non_arena::malloc_array: fn cudaMallocArray(
        out: *mut Array, format: *const ChannelFormatDesc, width: usize, height: usize, flags: u32);
    non_arena::malloc_3d_array: fn cudaMalloc3DArray(
        out: *mut Array, format: *const ChannelFormatDesc, extent: CudaExtent, flags: u32);
    non_arena::malloc_mipmapped: fn cudaMallocMipmappedArray(
        out: *mut Array, format: *const ChannelFormatDesc, extent: CudaExtent, levels: u32, flags: u32);
    non_arena::free_array: fn cudaFreeArray | cudaFreeMipmappedArray(array: Array);
    pools::malloc: fn cudaMallocAsync | cudaMallocAsync_ptsz(
        out: *mut *mut c_void, bytes: usize, stream: Stream);
    pools::malloc_from: fn cudaMallocFromPoolAsync | cudaMallocFromPoolAsync_ptsz(
        out: *mut *mut c_void, bytes: usize, pool: Pool, stream: Stream);
    pools::trim: fn cudaMemPoolTrimTo(pool: Pool, keep: usize);
    pools::destroy: fn cudaMemPoolDestroy(pool: Pool);
    locations::get_pool: fn cudaMemGetDefaultMemPool | cudaMemGetMemPool(
        out: *mut Pool, location: *mut MemLocation, kind: i32);
    locations::set_pool: fn cudaMemSetMemPool(location: *mut MemLocation, kind: i32, pool: Pool);
    locations::create_pool: fn cudaMemPoolCreate(out: *mut Pool, properties: *const MemPoolProps);
    locations::set_access: fn cudaMemPoolSetAccess(pool: Pool, list: *const MemAccessDesc, count: usize);
    locations::get_access: fn cudaMemPoolGetAccess(flags: *mut i32, pool: Pool, location: *mut MemLocation);
    locations::prefetch: fn cudaMemPrefetchAsync | cudaMemPrefetchAsync_ptsz(
        pointer: *const c_void, bytes: usize, location: MemLocation, flags: u32, stream: Stream);
    locations::advise: fn cudaMemAdvise(
        pointer: *const c_void, bytes: usize, advice: i32, location: MemLocation);
    batch::prefetches: fn cudaMemPrefetchBatchAsync | cudaMemPrefetchBatchAsync_ptsz
        | cudaMemDiscardAndPrefetchBatchAsync | cudaMemDiscardAndPrefetchBatchAsync_ptsz(
        pointers: *mut *mut c_void, sizes: *mut usize, count: usize, locations: *const MemLocation,
        starts: *mut usize, location_count: usize, flags: u64, stream: Stream);
    ranges::get: fn cudaMemRangeGetAttribute(
        data: *mut c_void, room: usize, attribute: u32, pointer: *const c_void, count: usize);
    ranges::get_all: fn cudaMemRangeGetAttributes(
        data: *mut *mut c_void, rooms: *mut usize, attributes: *mut u32, attribute_count: usize,
        pointer: *const c_void, count: usize);
    free::free: fn cudaFree(pointer: *mut c_void);
    free::free_async: fn cudaFreeAsync | cudaFreeAsync_ptsz(pointer: *mut c_void, stream: Stream);

    copy::memcpy: fn cudaMemcpy | cudaMemcpy_ptds(
        dst: *mut c_void, src: *const c_void, count: usize, kind: u32);
    copy::memcpy_async: fn cudaMemcpyAsync | cudaMemcpyAsync_ptsz(
        dst: *mut c_void, src: *const c_void, count: usize, kind: u32, stream: Stream);
    rows::memcpy_2d: fn cudaMemcpy2D | cudaMemcpy2D_ptds(
        dst: *mut c_void, dst_pitch: usize, src: *const c_void, src_pitch: usize, width: usize,
        height: usize, kind: u32);
    rows::memcpy_2d_async: fn cudaMemcpy2DAsync | cudaMemcpy2DAsync_ptsz(
        dst: *mut c_void, dst_pitch: usize, src: *const c_void, src_pitch: usize, width: usize,
        height: usize, kind: u32, stream: Stream);

    boxes::malloc_3d: fn cudaMalloc3D(out: *mut PitchedPtr, extent: CudaExtent);
    boxes::memset_3d: fn cudaMemset3D | cudaMemset3D_ptds(to: PitchedPtr, value: i32, extent: CudaExtent);
    boxes::memset_3d_async: fn cudaMemset3DAsync | cudaMemset3DAsync_ptsz(
        to: PitchedPtr, value: i32, extent: CudaExtent, stream: Stream);
    boxes::memcpy_3d: fn cudaMemcpy3D | cudaMemcpy3D_ptds(parameters: *const Memcpy3DParms);
    boxes::memcpy_3d_async: fn cudaMemcpy3DAsync | cudaMemcpy3DAsync_ptsz(
        parameters: *const Memcpy3DParms, stream: Stream);
    boxes::memcpy_3d_peer: fn cudaMemcpy3DPeer | cudaMemcpy3DPeer_ptds(parameters: *const Memcpy3DPeerParms);
    boxes::memcpy_3d_peer_async: fn cudaMemcpy3DPeerAsync | cudaMemcpy3DPeerAsync_ptsz(
        parameters: *const Memcpy3DPeerParms, stream: Stream);

    batch::copies: fn cudaMemcpyBatchAsync | cudaMemcpyBatchAsync_ptsz(
        to: *const *mut c_void, from: *const *const c_void, sizes: *const usize, count: usize,
        attributes: *const MemcpyAttributes, starts: *const usize, attribute_count: usize, stream: Stream);
    batch::boxes: fn cudaMemcpy3DBatchAsync | cudaMemcpy3DBatchAsync_ptsz(
        count: usize, all: *const Memcpy3DBatchOp, flags: u64, stream: Stream);

    peers::enable: fn cudaDeviceEnablePeerAccess(peer: i32, flags: u32);
    peers::disable: fn cudaDeviceDisablePeerAccess(peer: i32);
    peers::memcpy: fn cudaMemcpyPeer(
        dst: *mut c_void, dst_device: i32, src: *const c_void, src_device: i32, count: usize);
    peers::memcpy_async: fn cudaMemcpyPeerAsync(
        dst: *mut c_void, dst_device: i32, src: *const c_void, src_device: i32, count: usize,
        stream: Stream);

    set::memset: fn cudaMemset | cudaMemset_ptds(dst: *mut c_void, value: i32, count: usize);
    set::memset_async: fn cudaMemsetAsync | cudaMemsetAsync_ptsz(
        dst: *mut c_void, value: i32, count: usize, stream: Stream);
    set::memset_2d: fn cudaMemset2D | cudaMemset2D_ptds(
        dst: *mut c_void, pitch: usize, value: i32, width: usize, height: usize);
    set::memset_2d_async: fn cudaMemset2DAsync | cudaMemset2DAsync_ptsz(
        dst: *mut c_void, pitch: usize, value: i32, width: usize, height: usize, stream: Stream);

    symbol::to_symbol: fn cudaMemcpyToSymbol | cudaMemcpyToSymbol_ptds(
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: u32);
    symbol::to_symbol_async: fn cudaMemcpyToSymbolAsync | cudaMemcpyToSymbolAsync_ptsz(
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: u32, stream: Stream);
    symbol::from_symbol: fn cudaMemcpyFromSymbol | cudaMemcpyFromSymbol_ptds(
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: u32);
    symbol::from_symbol_async: fn cudaMemcpyFromSymbolAsync | cudaMemcpyFromSymbolAsync_ptsz(
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: u32, stream: Stream);

    launch::kernel: fn cudaLaunchKernel | cudaLaunchKernel_ptsz | __cudaLaunchKernel
        | __cudaLaunchKernel_ptsz(
        kernel: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize,
        stream: Stream);
    launch::cooperative: fn cudaLaunchCooperativeKernel | cudaLaunchCooperativeKernel_ptsz(
        kernel: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize,
        stream: Stream);
    launch::kernel_ex: fn cudaLaunchKernelExC | cudaLaunchKernelExC_ptsz(
        config: *const LaunchConfig, kernel: *const c_void, arguments: *mut *mut c_void);

    sync::device: fn cudaDeviceSynchronize();
    sync::stream: fn cudaStreamSynchronize | cudaStreamSynchronize_ptsz(stream: Stream);
    sync::query: fn cudaStreamQuery
        | cudaStreamQuery_ptsz(stream: Stream);

    stream::create: fn cudaStreamCreate(out: *mut Stream);
    stream::create_with_flags: fn cudaStreamCreateWithFlags(out: *mut Stream, flags: u32);
    stream::create_with_priority: fn cudaStreamCreateWithPriority(
        out: *mut Stream, flags: u32, priority: i32);
    stream::destroy: fn cudaStreamDestroy(stream: Stream);
    stream::flags: fn cudaStreamGetFlags | cudaStreamGetFlags_ptsz(stream: Stream, out: *mut u32);
    stream::device: fn cudaStreamGetDevice | cudaStreamGetDevice_ptsz(stream: Stream, out: *mut i32);
    stream::wait_event: fn cudaStreamWaitEvent | cudaStreamWaitEvent_ptsz(
        stream: Stream, event: *mut c_void, flags: u32);
    stream::add_callback: fn cudaStreamAddCallback | cudaStreamAddCallback_ptsz(
        stream: Stream, function: Option<Callback>, data: *mut c_void, flags: u32);
    stream::host_function: fn cudaLaunchHostFunc | cudaLaunchHostFunc_ptsz(
        stream: Stream, function: *mut c_void, data: *mut c_void);

    capture::begin: fn cudaStreamBeginCapture | cudaStreamBeginCapture_ptsz(stream: Stream, mode: u32);
    capture::begin_to_graph: fn cudaStreamBeginCaptureToGraph | cudaStreamBeginCaptureToGraph_ptsz(
        stream: Stream, graph: *mut c_void, after: *const c_void, edges: *const c_void, count: usize,
        mode: u32);
    capture::end: fn cudaStreamEndCapture | cudaStreamEndCapture_ptsz(
        stream: Stream, graph: *mut *mut c_void);

    event::create: fn cudaEventCreate(out: *mut *mut c_void);
    event::create_with_flags: fn cudaEventCreateWithFlags(out: *mut *mut c_void, flags: u32);
    event::destroy: fn cudaEventDestroy(event: *mut c_void);
    event::record: fn cudaEventRecord | cudaEventRecord_ptsz(event: *mut c_void, stream: Stream);
    event::record_with_flags: fn cudaEventRecordWithFlags | cudaEventRecordWithFlags_ptsz(
        event: *mut c_void, stream: Stream, flags: u32);
    event::done: fn cudaEventQuery | cudaEventSynchronize(event: *mut c_void);
    event::elapsed: fn cudaEventElapsedTime(
        out: *mut f32, start: *mut c_void, end: *mut c_void);
    event::of_node: fn cudaGraphEventRecordNodeGetEvent | cudaGraphEventWaitNodeGetEvent(
        node: *mut c_void, out: *mut *mut c_void);
    node::add: fn cudaGraphAddNode(
        node: *mut c_void, graph: *mut c_void, dependencies: *const c_void, data: *const c_void,
        count: usize, params: *mut GraphNodeParams);
    node::set: fn cudaGraphNodeSetParams(node: *mut c_void, params: *mut GraphNodeParams);
    node::set_in_executable: fn cudaGraphExecNodeSetParams(
        graph: *mut c_void, node: *mut c_void, params: *mut GraphNodeParams);

    graphs::add_alloc: fn cudaGraphAddMemAllocNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize,
        params: *mut MemAllocNodeParams);
    graphs::alloc_params: fn cudaGraphMemAllocNodeGetParams(
        node: *mut c_void, params: *mut MemAllocNodeParams);
    graphs::instantiate: fn cudaGraphInstantiate | cudaGraphInstantiateWithFlags(
        out: *mut *mut c_void, graph: *mut c_void, flags: u64);
    graphs::instantiate_with: fn cudaGraphInstantiateWithParams | cudaGraphInstantiateWithParams_ptsz(
        out: *mut *mut c_void, graph: *mut c_void, params: *mut GraphInstantiateParams);
    graphs::run: fn cudaGraphLaunch | cudaGraphLaunch_ptsz | cudaGraphUpload | cudaGraphUpload_ptsz(
        exec: *mut c_void, stream: Stream);
    graphs::destroy: fn cudaGraphExecDestroy(exec: *mut c_void);
    graphs::trim: fn cudaDeviceGraphMemTrim(device: i32);

    host::malloc: fn cudaMallocHost(out: *mut *mut c_void, bytes: usize);
    host::alloc: fn cudaHostAlloc(out: *mut *mut c_void, bytes: usize, flags: u32);
    host::free: fn cudaFreeHost(pointer: *mut c_void);
    host::register: fn cudaHostRegister(pointer: *mut c_void, bytes: usize, flags: u32);
    host::unregister: fn cudaHostUnregister(pointer: *mut c_void);

    function::set_attribute: fn cudaFuncSetAttribute(
        function: *const c_void, attribute: u32, value: i32);
    function::set_cache: fn cudaFuncSetCacheConfig(function: *const c_void, config: u32);

    function::set_device_cache: fn cudaDeviceSetCacheConfig(config: u32);
    function::set_device_flags: fn cudaSetDeviceFlags(flags: u32);
    function::device_flags: fn cudaGetDeviceFlags(out: *mut u32);

    errors::get_last: fn cudaGetLastError();
    errors::peek_at_last: fn cudaPeekAtLastError();

    device::set: fn cudaSetDevice(ordinal: i32);
    device::get: fn cudaGetDevice(out: *mut i32);
    device::init: fn cudaInitDevice(ordinal: i32, device_flags: u32, flags: u32);
    device::reset: fn cudaDeviceReset();
    pointers::attributes: fn cudaPointerGetAttributes(
        attributes: *mut PointerAttributes, pointer: *const c_void);
    information::mem_get_info: fn cudaMemGetInfo(free: *mut usize, total: *mut usize);
    limits::set_limit: fn cudaDeviceSetLimit(limit: u32, value: usize);
}
