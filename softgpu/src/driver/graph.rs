//! Graphs: what the runtime makes of them by a front, and nodes of memory, which programs in the driver API and
//! tests make.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use mgb_abi::graph::{
    GraphExecUpdateResultInfo, GraphInstantiateParams, GraphNodeParams, INSTANTIATE_AUTO_FREE_ON_LAUNCH,
    INSTANTIATE_DEVICE_LAUNCH, INSTANTIATE_UPLOAD, INSTANTIATE_USE_NODE_PRIORITY, MemAllocNodeParams,
    NODE_EMPTY, NODE_MEM_ALLOC, NODE_MEM_FREE,
};
use mgb_abi::launch::Dim3;
use mgb_abi::pool::MemPoolProps;

use super::{driver, pool};
use crate::address::graph_memory::GraphMemory;
use crate::entry::put;
use crate::error::{Error, Result, say_once};
use crate::graph::{NodeKind, exec, nodes_at, with};
use crate::work::Action;

/// All flags that there are.
const FLAGS: u64 = INSTANTIATE_AUTO_FREE_ON_LAUNCH
    | INSTANTIATE_UPLOAD
    | INSTANTIATE_DEVICE_LAUNCH
    | INSTANTIATE_USE_NODE_PRIORITY;

/// `CUDA_KERNEL_NODE_PARAMS`, whose kernel is a handle of the driver's.
#[repr(C)]
pub struct KernelNode {
    function: usize,
    grid: Dim3,
    block: Dim3,
    shared: c_uint,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
    kernel: usize,
    context: usize,
}

/// Makes an executable graph; its handle.
///
/// # Errors
/// `INVALID_VALUE` for no graph or unknown flags, `NOT_SUPPORTED` for graphs that kernels launch, and
/// `MEMORY_ALLOCATION` where it is to be uploaded.
pub fn instantiate(graph: usize, flags: u64) -> Result<usize> {
    if flags & !FLAGS != 0 {
        return Err(Error::INVALID_VALUE);
    }
    if flags & INSTANTIATE_DEVICE_LAUNCH != 0 {
        say_once("graphs that kernels launch are not supported by the software GPU");
        return Err(Error::NOT_SUPPORTED);
    }
    let handle = with(|graphs| exec::instantiate(graphs, graph, flags))?;
    if flags & INSTANTIATE_UPLOAD != 0
        && let Err(error) = exec::find(handle)?.take_memory()
    {
        exec::destroy(handle)?;
        return Err(error);
    }
    Ok(handle)
}

/// What went wrong, as `CUgraphInstantiateResult`.
pub fn instantiate_result(made: Result) -> c_int {
    match made {
        Ok(()) => 0,
        Err(Error::NOT_SUPPORTED) => 3,
        Err(_) => 1,
    }
}

/// Makes an executable graph do what a graph of the same shape does.
///
/// # Errors
/// `INVALID_VALUE` for no graph, `GRAPH_EXEC_UPDATE_FAILURE` for one of another shape.
pub fn update(handle: usize, graph: usize, info: *mut GraphExecUpdateResultInfo) -> Result {
    let exec = exec::find(handle)?;
    let updated = with(|graphs| exec.update(graphs, graph))?;
    let (result, node) = updated
        .err()
        .map_or((0, 0), |unlike| (unlike.result, unlike.node));
    if !info.is_null() {
        put!(
            info,
            GraphExecUpdateResultInfo {
                result,
                error_node: node as *mut c_void,
                error_from_node: std::ptr::null_mut(),
            }
        );
    }
    updated.map_err(|_| Error::GRAPH_EXEC_UPDATE_FAILURE)
}

/// Gives nodes to a caller: how many there are where it has no array, else as many as it has room for, with
/// null for the rest.
///
/// # Errors
/// `INVALID_VALUE` for no place for their number.
///
/// # Safety
/// `count` is null or valid for reads and writes, and `to` is null or has room for `*count` nodes.
pub unsafe fn give(found: &[usize], to: *mut usize, count: *mut usize) -> Result {
    // SAFETY: `count` is null or valid for reads: contract of this function.
    let room = *unsafe { count.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if !to.is_null() {
        for at in 0..room {
            // SAFETY: the array has room for the number that `count` held: contract of this function.
            unsafe { to.add(at).write(found.get(at).copied().unwrap_or(0)) };
        }
    }
    put!(
        count,
        if to.is_null() {
            found.len()
        } else {
            found.len().min(room)
        }
    );
    Ok(())
}

/// The parameters of a node that allocates.
///
/// # Errors
/// `INVALID_VALUE` for another node.
pub fn memory_of(node: usize) -> Result<MemAllocNodeParams> {
    let NodeKind::Alloc(memory) = kind_of(node)? else {
        return Err(Error::INVALID_VALUE);
    };
    Ok(MemAllocNodeParams {
        pool_props: MemPoolProps::of_device(memory.ordinal as i32),
        access_descs: std::ptr::null(),
        access_desc_count: 0,
        byte_size: memory.size,
        dptr: memory.address as *mut c_void,
    })
}

fn kind_of(node: usize) -> Result<NodeKind> {
    with(|graphs| Ok(graphs.node(node)?.kind.clone()))
}

fn add(node: *mut usize, graph: usize, after: *const usize, count: usize, kind: NodeKind) -> Result {
    if node.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let after = nodes_at(after, count)?;
    put!(node, with(|graphs| graphs.add(graph, after, kind))?);
    Ok(())
}

/// Adds a node that allocates, and writes the address to its parameters.
///
/// # Safety
/// `parameters` is null or can be read and written.
unsafe fn add_memory(
    node: *mut usize,
    graph: usize,
    (after, count): (*const usize, usize),
    parameters: *mut MemAllocNodeParams,
) -> Result {
    // SAFETY: contract of this function.
    let parameters = unsafe { parameters.as_mut() }.ok_or(Error::INVALID_VALUE)?;
    let memory = GraphMemory::new(pool::gpu_of(&parameters.pool_props)?, parameters.byte_size)?;
    let address = memory.pointer();
    add(node, graph, after, count, NodeKind::Alloc(memory))?;
    parameters.dptr = address;
    Ok(())
}

fn add_free(node: *mut usize, graph: usize, (after, count): (*const usize, usize), address: usize) -> Result {
    if address == 0 {
        return Err(Error::INVALID_VALUE);
    }
    add(node, graph, after, count, NodeKind::Free(address))
}

driver! {
    fn cuGraphCreate(graph: *mut usize, flags: c_uint) {
        if flags != 0 || graph.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(graph, with(|graphs| graphs.create()));
        Ok(())
    }

    fn cuGraphDestroy(graph: usize) {
        let gone = with(|graphs| graphs.destroy(graph))?;
        drop(gone);
        Ok(())
    }

    fn cuGraphClone(clone: *mut usize, graph: usize) {
        if clone.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(clone, with(|graphs| graphs.clone_of(graph))?);
        Ok(())
    }

    fn cuGraphGetNodes(graph: usize, to: *mut usize, count: *mut usize) {
        let all: Vec<usize> = with(|graphs| Ok(graphs.graph(graph)?.nodes.keys().copied().collect()))?;
        // SAFETY: CUDA's contract of this function.
        unsafe { give(&all, to, count) }
    }

    fn cuGraphNodeGetType(node: usize, kind: *mut u32) {
        put!(kind, kind_of(node)?.number());
        Ok(())
    }

    fn cuGraphKernelNodeGetParams_v2(node: usize, to: *mut KernelNode) {
        let NodeKind::Work(work) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        let Action::Kernel(launch) = work.action else { return Err(Error::INVALID_VALUE) };
        let dim3 = |[x, y, z]: [c_uint; 3]| Dim3 { x, y, z };
        put!(to, KernelNode {
            function: 0,
            grid: dim3(launch.shape.grid),
            block: dim3(launch.shape.block),
            shared: launch.shape.shared as c_uint,
            arguments: std::ptr::null_mut(),
            extra: std::ptr::null_mut(),
            kernel: 0,
            context: 0,
        });
        Ok(())
    }

    fn cuGraphAddEmptyNode(node: *mut usize, graph: usize, after: *const usize, count: usize) {
        add(node, graph, after, count, NodeKind::Empty)
    }

    fn cuGraphAddChildGraphNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, child: usize,
    ) {
        add(node, graph, after, count, NodeKind::Child(child))
    }

    fn cuGraphChildGraphNodeGetGraph(node: usize, graph: *mut usize) {
        let NodeKind::Child(child) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(graph, child);
        Ok(())
    }

    fn cuGraphAddMemAllocNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize,
        parameters: *mut MemAllocNodeParams,
    ) {
        // SAFETY: CUDA's contract of the function.
        unsafe { add_memory(node, graph, (after, count), parameters) }
    }

    fn cuGraphMemAllocNodeGetParams(node: usize, to: *mut MemAllocNodeParams) {
        put!(to, memory_of(node)?);
        Ok(())
    }

    fn cuGraphAddMemFreeNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, pointer: usize,
    ) {
        add_free(node, graph, (after, count), pointer)
    }

    fn cuGraphMemFreeNodeGetParams(node: usize, to: *mut usize) {
        let NodeKind::Free(address) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(to, address);
        Ok(())
    }

    fn cuGraphAddNode_v2(
        node: *mut usize, graph: usize, after: *const usize, _edges: *const c_void, count: usize,
        parameters: *mut GraphNodeParams,
    ) {
        // SAFETY: null or a whole structure: CUDA's contract of the function.
        let parameters = unsafe { parameters.as_mut() }.ok_or(Error::INVALID_VALUE)?;
        match parameters.kind {
            // SAFETY: the union has the parameters of this kind, and is as large.
            NODE_MEM_ALLOC => unsafe {
                add_memory(node, graph, (after, count), parameters.body.as_mut_ptr().cast())
            },
            NODE_MEM_FREE => add_free(node, graph, (after, count), parameters.body[0] as usize),
            NODE_EMPTY => add(node, graph, after, count, NodeKind::Empty),
            _ => {
                say_once("cuGraphAddNode makes nodes of memory and of nothing on the software GPU");
                Err(Error::NOT_SUPPORTED)
            }
        }
    }

    fn cuGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: c_ulonglong) {
        if exec.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(exec, instantiate(graph, flags)?);
        Ok(())
    }

    fn cuGraphInstantiateWithParams(
        exec: *mut usize, graph: usize, parameters: *mut GraphInstantiateParams,
    ) {
        // SAFETY: null or a whole structure: CUDA's contract of the function.
        let parameters = unsafe { parameters.as_mut() }.ok_or(Error::INVALID_VALUE)?;
        if exec.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let made = instantiate(graph, parameters.flags).and_then(|handle| {
            put!(exec, handle);
            Ok(())
        });
        parameters.err_node = std::ptr::null_mut();
        parameters.result = instantiate_result(made);
        made
    }

    fn cuGraphExecDestroy(handle: usize) {
        exec::destroy(handle)
    }

    fn cuGraphExecUpdate_v2(handle: usize, graph: usize, info: *mut GraphExecUpdateResultInfo) {
        update(handle, graph, info)
    }
}
