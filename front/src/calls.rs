//! The driver's functions that the front calls for itself: typed, past the gate. Each answers the driver's
//! code.

use std::ffi::{CStr, c_int, c_uint, c_ulonglong, c_void};

use mgb_abi::graph::{MemAllocNodeParams, NODE_GRAPH, NODE_KERNEL, NODE_MEM_ALLOC};
use mgb_abi::launch::Dim3;
use mgb_abi::location::{LOCATION_DEVICE, MemLocation};
use mgb_abi::pool::{ACCESS_READ_WRITE, ALLOCATION_PINNED, MemAccessDesc};
use mgb_abi::stream::{CAPTURE_MODE_RELAXED, EVENT_DISABLE_TIMING, STREAM_NON_BLOCKING};
use mgb_abi::vmm::MemAllocationProp;
use mgb_core::transfer::Calls;

use crate::{driver, names};

/// A `CUresult`.
pub type Code = c_int;
/// A `CUcontext`.
pub type Context = usize;
/// A `CUstream`.
pub type Stream = usize;
/// A `CUevent`.
pub type Event = usize;

/// CUDA's `CUDA_SUCCESS`.
pub const SUCCESS: Code = 0;
/// CUDA's `CUDA_ERROR_INVALID_VALUE`.
pub const INVALID_VALUE: Code = 1;
/// CUDA's `CUDA_ERROR_NOT_SUPPORTED`.
pub const NOT_SUPPORTED: Code = 801;
/// CUDA's `CUDA_ERROR_NOT_READY`.
pub const NOT_READY: Code = 600;
/// CUDA's `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: Code = 100;
/// CUDA's `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: Code = 2;

/// CUDA's `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`: memory that other processes can have.
pub const POSIX_FILE: c_int = 1;

/// The byte `gpuDirectRDMACapable` of `CUmemAllocationProp`'s flags.
const RDMA_CAPABLE: usize = 1;

/// Calls one of the driver's functions.
macro_rules! call {
    ($name:ident($($value:expr => $ty:ty),* $(,)?)) => {{
        let address = driver::address(names::index::$name);
        // SAFETY: the slot's code goes on to the driver's function of this name, which has this signature,
        // and the values are what it asks for: see the caller.
        unsafe {
            std::mem::transmute::<*const c_void, unsafe extern "C" fn($($ty),*) -> c_int>(address)($($value),*)
        }
    }};
}

/// The value that a call wrote, if it succeeded.
fn written<T>(value: T, code: Code) -> Result<T, Code> {
    if code == SUCCESS { Ok(value) } else { Err(code) }
}

/// The calling thread's context; 0: none.
pub fn context() -> Context {
    let mut context = 0;
    let code = call!(cuCtxGetCurrent(&mut context => *mut usize));
    if code == SUCCESS { context } else { 0 }
}

/// The name of a green context among contexts.
pub fn context_of_green(green: usize) -> Option<Context> {
    let mut context = 0;
    let code = call!(cuCtxFromGreenCtx(&mut context => *mut usize, green => usize));
    written(context, code).ok()
}

/// The device of the calling thread's context.
pub fn device() -> Result<c_int, Code> {
    let mut device = 0;
    let code = call!(cuCtxGetDevice(&mut device => *mut c_int));
    written(device, code)
}

/// A context that is the thread's until the guard is dropped.
pub struct Entered(Context);

/// Makes a context the thread's own for a while.
pub fn enter(context: Context) -> Result<Entered, Code> {
    let before = self::context();
    let code = call!(cuCtxSetCurrent(context => usize));
    written(Entered(before), code)
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = call!(cuCtxSetCurrent(self.0 => usize));
    }
}

/// While it lives, this thread's calls do not end a capture of another thread.
pub struct Relaxed(u32);

/// Sets the thread's relaxed capture mode.
pub fn relax() -> Relaxed {
    let mut mode = CAPTURE_MODE_RELAXED;
    let code = call!(cuThreadExchangeStreamCaptureMode(&mut mode => *mut u32));
    Relaxed(if code == SUCCESS {
        mode
    } else {
        CAPTURE_MODE_RELAXED
    })
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        let _ = call!(cuThreadExchangeStreamCaptureMode(&mut self.0 => *mut u32));
    }
}

/// Waits for all work of the thread's context.
pub fn synchronize() -> Code {
    call!(cuCtxSynchronize())
}

/// Reserves addresses, at the wanted ones if they are free.
pub fn reserve(bytes: u64, wanted: u64) -> Result<u64, Code> {
    let mut address = 0;
    let code = call!(cuMemAddressReserve(
        &mut address => *mut u64, bytes as usize => usize, 0 => usize, wanted => u64, 0 => c_ulonglong,
    ));
    written(address, code)
}

/// A number that the driver knows of a device.
pub fn device_attribute(device: c_int, attribute: c_int) -> Option<c_int> {
    let mut value = 0;
    let code = call!(cuDeviceGetAttribute(&mut value => *mut c_int, attribute => c_int, device => c_int));
    written(value, code).ok()
}

/// Physical memory of a device; `handle_types`: how other processes may get it; `for_cards`: network cards
/// can reach it.
pub fn create(device: c_int, bytes: u64, handle_types: i32, for_cards: bool) -> Result<u64, Code> {
    let mut alloc_flags = [0; 8];
    alloc_flags[RDMA_CAPABLE] = u8::from(for_cards);
    let prop = MemAllocationProp {
        alloc_type: ALLOCATION_PINNED,
        handle_types,
        location: MemLocation::device(device),
        win32_handle_metadata: std::ptr::null_mut(),
        alloc_flags,
    };
    let mut handle = 0;
    let code = call!(cuMemCreate(
        &mut handle => *mut u64, bytes as usize => usize, &prop => *const MemAllocationProp, 0 => c_ulonglong,
    ));
    written(handle, code)
}

/// Physical memory with these properties.
pub fn create_as(prop: &MemAllocationProp, bytes: u64) -> Result<u64, Code> {
    let mut handle = 0;
    let code = call!(cuMemCreate(
        &mut handle => *mut u64, bytes as usize => usize, prop => *const MemAllocationProp, 0 => c_ulonglong,
    ));
    written(handle, code)
}

/// One more handle of what is mapped at the address.
pub fn retain(address: u64) -> Result<u64, Code> {
    let mut handle = 0;
    let code = call!(cuMemRetainAllocationHandle(&mut handle => *mut u64, address => u64));
    written(handle, code)
}

/// A descriptor by which another process gets the memory, if it was made for that.
pub fn export(handle: u64) -> Result<c_int, Code> {
    let mut file = -1;
    let code = call!(cuMemExportToShareableHandle(
        &mut file => *mut c_int, handle => u64, POSIX_FILE => c_int, 0 => c_ulonglong,
    ));
    written(file, code)
}

/// Memory of another process, by its descriptor, which stays open.
pub fn import(file: c_int) -> Result<u64, Code> {
    let mut handle = 0;
    let code = call!(cuMemImportFromShareableHandle(
        &mut handle => *mut u64, file as usize => usize, POSIX_FILE => c_int,
    ));
    written(handle, code)
}

/// Gives reserved addresses back, where nothing is mapped.
pub fn unreserve(address: u64, bytes: u64) -> Code {
    call!(cuMemAddressFree(address => u64, bytes as usize => usize))
}

/// Gives a handle back: its memory is freed once it is mapped nowhere.
pub fn release(handle: u64) -> Code {
    call!(cuMemRelease(handle => u64))
}

/// Maps memory at reserved addresses.
pub fn map(address: u64, bytes: u64, handle: u64) -> Code {
    call!(cuMemMap(address => u64, bytes as usize => usize, 0 => usize, handle => u64, 0 => c_ulonglong))
}

/// Maps memory from an offset on at reserved addresses.
pub fn map_at(address: u64, bytes: u64, offset: u64, handle: u64) -> Code {
    call!(cuMemMap(
        address => u64, bytes as usize => usize, offset as usize => usize, handle => u64, 0 => c_ulonglong,
    ))
}

/// Sets who may use mapped memory.
pub fn set_access(address: u64, bytes: u64, access: &[MemAccessDesc]) -> Code {
    call!(cuMemSetAccess(
        address => u64, bytes as usize => usize, access.as_ptr() => *const MemAccessDesc, access.len() => usize,
    ))
}

/// Takes the memory from the addresses. No work may use it any more.
pub fn unmap(address: u64, bytes: u64) -> Code {
    call!(cuMemUnmap(address => u64, bytes as usize => usize))
}

/// Lets a device read and write mapped memory.
pub fn allow(address: u64, bytes: u64, device: c_int) -> Code {
    let access = MemAccessDesc {
        location: MemLocation::device(device),
        flags: ACCESS_READ_WRITE,
    };
    call!(cuMemSetAccess(
        address => u64, bytes as usize => usize, &access => *const MemAccessDesc, 1 => usize,
    ))
}

/// A stream that waits for no other, in the thread's context.
pub fn stream() -> Result<Stream, Code> {
    let mut stream = 0;
    let code = call!(cuStreamCreate(&mut stream => *mut usize, STREAM_NON_BLOCKING => c_uint));
    written(stream, code)
}

/// Ends a stream, once its work is done.
pub fn end_stream(stream: Stream) -> Code {
    call!(cuStreamDestroy_v2(stream => usize))
}

/// Whether a stream's work is done: [`SUCCESS`] if so.
pub fn query(stream: Stream) -> Code {
    call!(cuStreamQuery(stream => usize))
}

/// An event at the present end of a stream of the thread's context.
///
/// # Errors
/// The driver's, as for a stream of another context.
pub fn record(stream: Stream) -> Result<Event, Code> {
    let mut event = 0;
    let code = call!(cuEventCreate(&mut event => *mut usize, EVENT_DISABLE_TIMING => c_uint));
    let event = written(event, code)?;
    let code = call!(cuEventRecord(event => usize, stream => usize));
    if code != SUCCESS {
        end_event(event);
    }
    written(event, code)
}

/// Whether an event has passed: [`SUCCESS`] if so, [`NOT_READY`] if not.
pub fn query_event(event: Event) -> Code {
    call!(cuEventQuery(event => usize))
}

/// Ends an event.
pub fn end_event(event: Event) -> Code {
    call!(cuEventDestroy_v2(event => usize))
}

/// Whether a stream captures.
pub fn is_capturing(stream: Stream) -> bool {
    let mut status = 0;
    let code = call!(cuStreamIsCapturing(stream => usize, &mut status => *mut c_int));
    code != SUCCESS || status != 0
}

/// What copies for a swap take.
///
/// # Errors
/// The driver lacks one of them.
pub fn copies() -> Result<Calls, Code> {
    let find = |name: &CStr| {
        let index = names::NAMES.iter().position(|known| *known == name);
        index.map_or(std::ptr::null(), driver::address)
    };
    // SAFETY: what a slot leads to is the driver's function of its name, or reports that there is none.
    unsafe { Calls::find(find) }.map_err(|_| NOT_SUPPORTED)
}

/// A number of bytes that a pool knows of itself.
pub fn pool_attribute(pool: usize, attribute: u32) -> Result<u64, Code> {
    let mut value = 0;
    let code = call!(cuMemPoolGetAttribute(pool => usize, attribute => u32, &mut value => *mut u64));
    written(value, code)
}

/// A number of bytes that the driver knows of the memory of graphs on a device.
pub fn graph_attribute(device: c_int, attribute: u32) -> Option<u64> {
    let mut value = 0;
    let code = call!(cuDeviceGetGraphMemAttribute(device => c_int, attribute => u32, &mut value => *mut u64));
    written(value, code).ok()
}

/// Has a pool free what it keeps unused.
pub fn trim_pool(pool: usize) -> Code {
    call!(cuMemPoolTrimTo(pool => usize, 0 => usize))
}

/// Has graphs free what they keep unused on a device.
pub fn trim_graphs(device: c_int) -> Code {
    call!(cuDeviceGraphMemTrim(device => c_int))
}

/// The pool that allocations on the device come from.
pub fn pool_of(device: c_int) -> Option<usize> {
    let mut pool = 0;
    let code = call!(cuDeviceGetMemPool(&mut pool => *mut usize, device => c_int));
    written(pool, code).ok()
}

/// The pool that a device's allocations come from unless another one is chosen.
pub fn default_pool_of(device: c_int) -> Option<usize> {
    let mut pool = 0;
    let code = call!(cuDeviceGetDefaultMemPool(&mut pool => *mut usize, device => c_int));
    written(pool, code).ok()
}

/// Chooses the pool that allocations on the device come from.
pub fn set_pool(device: c_int, pool: usize) -> Code {
    call!(cuDeviceSetMemPool(device => c_int, pool => usize))
}

/// Ends a pool.
pub fn destroy_pool(pool: usize) -> Code {
    call!(cuMemPoolDestroy(pool => usize))
}

/// Frees memory of a pool in the stream.
///
/// # Safety
/// It was allocated in stream order, and nothing uses it.
pub unsafe fn free_in(address: u64, stream: Stream) -> Code {
    call!(cuMemFreeAsync(address => u64, stream => usize))
}

/// The nodes of a graph.
pub fn nodes(graph: usize) -> Vec<usize> {
    let mut count = 0;
    let code = call!(cuGraphGetNodes(
        graph => usize, std::ptr::null_mut() => *mut usize, &mut count => *mut usize,
    ));
    let mut nodes = vec![0; if code == SUCCESS { count } else { 0 }];
    if !nodes.is_empty() {
        let code = call!(cuGraphGetNodes(
            graph => usize, nodes.as_mut_ptr() => *mut usize, &mut count => *mut usize,
        ));
        nodes.truncate(if code == SUCCESS { count } else { 0 });
    }
    nodes
}

/// What a node of a graph is.
pub enum Node {
    /// A kernel: its blocks, and the threads of each.
    Kernel([u32; 3], [u32; 3]),
    /// Another graph.
    Graph(usize),
    /// Memory of a device that is allocated: the device, and the bytes.
    Memory(c_int, u64),
    /// Something else.
    Other,
}

/// `CUDA_KERNEL_NODE_PARAMS`, as far as it is read.
#[repr(C)]
struct KernelNode {
    function: usize,
    grid: Dim3,
    block: Dim3,
    rest: [u64; 8],
}

/// What a node is.
pub fn node(node: usize) -> Node {
    let mut kind = u32::MAX;
    if call!(cuGraphNodeGetType(node => usize, &mut kind => *mut u32)) != SUCCESS {
        return Node::Other;
    }
    match kind {
        NODE_KERNEL => {
            // SAFETY: all zeros is a valid value of each number.
            let mut kernel: KernelNode = unsafe { std::mem::zeroed() };
            match call!(cuGraphKernelNodeGetParams_v2(node => usize, &mut kernel => *mut KernelNode)) {
                SUCCESS => Node::Kernel(kernel.grid.array(), kernel.block.array()),
                _ => Node::Other,
            }
        }
        NODE_MEM_ALLOC => {
            // SAFETY: all zeros is a valid value of each number and pointer.
            let mut memory: MemAllocNodeParams = unsafe { std::mem::zeroed() };
            match call!(cuGraphMemAllocNodeGetParams(node => usize, &mut memory => *mut MemAllocNodeParams)) {
                SUCCESS if memory.pool_props.location.kind == LOCATION_DEVICE => {
                    Node::Memory(memory.pool_props.location.id, memory.byte_size as u64)
                }
                _ => Node::Other,
            }
        }
        NODE_GRAPH => {
            let mut graph = 0;
            match call!(cuGraphChildGraphNodeGetGraph(node => usize, &mut graph => *mut usize)) {
                SUCCESS => Node::Graph(graph),
                _ => Node::Other,
            }
        }
        _ => Node::Other,
    }
}
