//! Graphs: nodes and their parameters, and what instantiation takes.

use core::ffi::{c_int, c_uint, c_void};

use crate::launch::Dim3;
use crate::pool::{MemAccessDesc, MemPoolProps};

/// `cudaGraphNodeTypeKernel`.
pub const NODE_KERNEL: u32 = 0;
/// `cudaGraphNodeTypeMemcpy`.
pub const NODE_MEMCPY: u32 = 1;
/// `cudaGraphNodeTypeMemset`.
pub const NODE_MEMSET: u32 = 2;
/// `cudaGraphNodeTypeHost`.
pub const NODE_HOST: u32 = 3;
/// `cudaGraphNodeTypeGraph`: a child graph.
pub const NODE_GRAPH: u32 = 4;
/// `cudaGraphNodeTypeEmpty`.
pub const NODE_EMPTY: u32 = 5;
/// `cudaGraphNodeTypeWaitEvent`.
pub const NODE_WAIT_EVENT: u32 = 6;
/// `cudaGraphNodeTypeEventRecord`.
pub const NODE_EVENT_RECORD: u32 = 7;
/// `cudaGraphNodeTypeExtSemaphoreSignal`.
pub const NODE_EXT_SEMAPHORE_SIGNAL: u32 = 8;
/// `cudaGraphNodeTypeExtSemaphoreWait`.
pub const NODE_EXT_SEMAPHORE_WAIT: u32 = 9;
/// `cudaGraphNodeTypeMemAlloc`.
pub const NODE_MEM_ALLOC: u32 = 10;
/// `cudaGraphNodeTypeMemFree`.
pub const NODE_MEM_FREE: u32 = 11;
/// `cudaGraphNodeTypeConditional`.
pub const NODE_CONDITIONAL: u32 = 13;

/// `cudaGraphNodeParams`: the parameters of a node of any kind.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GraphNodeParams {
    /// `cudaGraphNodeType`.
    pub kind: u32,
    /// Must be zero.
    pub reserved0: [c_int; 3],
    /// A union: the parameters of that kind.
    pub body: [u64; 29],
    /// Must be zero.
    pub reserved2: u64,
}

/// `cudaKernelNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNodeParams {
    /// The host stub.
    pub func: *mut c_void,
    /// Blocks of the grid.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Bytes of dynamic shared memory.
    pub shared_mem_bytes: c_uint,
    /// A pointer to each argument.
    pub kernel_params: *mut *mut c_void,
    /// The other way to pass arguments.
    pub extra: *mut *mut c_void,
}

/// `cudaMemsetParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemsetParams {
    /// The address of the first byte.
    pub dst: *mut c_void,
    /// Bytes from row to row.
    pub pitch: usize,
    /// What each element becomes.
    pub value: c_uint,
    /// Bytes of an element.
    pub element_size: c_uint,
    /// Elements of a row.
    pub width: usize,
    /// Rows that are set.
    pub height: usize,
}

/// `cudaHostNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostNodeParams {
    /// `cudaHostFn_t`.
    pub func: Option<unsafe extern "C" fn(*mut c_void)>,
    /// What `func` is called with.
    pub user_data: *mut c_void,
}

/// `CUDA_KERNEL_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DriverKernelNodeParams {
    /// `CUfunction`.
    pub func: *mut c_void,
    /// Blocks of the grid.
    pub grid: Dim3,
    /// Threads of each block.
    pub block: Dim3,
    /// Bytes of dynamic shared memory of each block.
    pub shared_mem_bytes: u32,
    /// The addresses of the arguments.
    pub kernel_params: *mut *mut c_void,
    /// The arguments in another form.
    pub extra: *mut *mut c_void,
    /// `CUkernel`.
    pub kern: *mut c_void,
    /// `CUcontext`.
    pub ctx: *mut c_void,
}

/// `cudaMemAllocNodeParams`, and the same part of `cudaMemAllocNodeParamsV2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemAllocNodeParams {
    /// Properties of the pool that the memory comes from.
    pub pool_props: MemPoolProps,
    /// Which devices may use it.
    pub access_descs: *const MemAccessDesc,
    /// Number of `access_descs`.
    pub access_desc_count: usize,
    /// Bytes to allocate.
    pub byte_size: usize,
    /// The address, written by the runtime.
    pub dptr: *mut c_void,
}

/// `cudaGraphInstantiateParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GraphInstantiateParams {
    /// `cudaGraphInstantiateFlags`.
    pub flags: u64,
    /// The stream in which the graph is uploaded.
    pub upload_stream: *mut c_void,
    /// The node that could not be instantiated.
    pub err_node: *mut c_void,
    /// `cudaGraphInstantiateResult`.
    pub result: c_int,
}

/// `cudaGraphInstantiateFlagAutoFreeOnLaunch`.
pub const INSTANTIATE_AUTO_FREE_ON_LAUNCH: u64 = 1;
/// `cudaGraphInstantiateFlagUpload`.
pub const INSTANTIATE_UPLOAD: u64 = 2;
/// `cudaGraphInstantiateFlagDeviceLaunch`.
pub const INSTANTIATE_DEVICE_LAUNCH: u64 = 4;
/// `cudaGraphInstantiateFlagUseNodePriority`.
pub const INSTANTIATE_USE_NODE_PRIORITY: u64 = 8;

/// `cudaGraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GraphExecUpdateResultInfo {
    /// `cudaGraphExecUpdateResult`.
    pub result: c_int,
    /// The node that differs.
    pub error_node: *mut c_void,
    /// The node at the start of an edge that differs.
    pub error_from_node: *mut c_void,
}

/// `cudaGraphMemAttrUsedMemCurrent`.
pub const GRAPH_MEM_USED_CURRENT: u32 = 0;
/// `cudaGraphMemAttrUsedMemHigh`.
pub const GRAPH_MEM_USED_HIGH: u32 = 1;
/// `cudaGraphMemAttrReservedMemCurrent`.
pub const GRAPH_MEM_RESERVED_CURRENT: u32 = 2;
/// `cudaGraphMemAttrReservedMemHigh`.
pub const GRAPH_MEM_RESERVED_HIGH: u32 = 3;

const _: () = {
    assert!(size_of::<GraphNodeParams>() == 256 && core::mem::offset_of!(GraphNodeParams, body) == 16);
    assert!(size_of::<KernelNodeParams>() == 56);
    assert!(size_of::<DriverKernelNodeParams>() == 72);
    assert!(size_of::<MemsetParams>() == 40);
    assert!(size_of::<HostNodeParams>() == 16);
    assert!(size_of::<MemAllocNodeParams>() == 120);
    assert!(size_of::<GraphInstantiateParams>() == 32);
    assert!(size_of::<GraphExecUpdateResultInfo>() == 24);
};
