//! Nodes of any kind, by the one structure that describes them all.

use std::ffi::c_void;

use mgb_abi::graph::*;

use super::graph_nodes::{add, change};
use super::{
    graph_copy_nodes, graph_event_nodes, graph_host_nodes, graph_kernel_nodes, graph_set_nodes, runtime,
};
use crate::address::graph_memory::GraphMemory;
use crate::driver::pool::gpu_of;
use crate::error::{Error, Result, say_once};
use crate::graph::{NodeKind, exec, with};

/// `cudaMemcpyNodeParams` has 16 bytes before the copy.
const BEFORE_COPY: usize = 2;

fn refuse<T>(what: &str) -> Result<T> {
    say_once(&format!("{what} are not supported by the software GPU"));
    Err(Error::NOT_SUPPORTED)
}

/// What a node of these parameters does; an allocation's address is written back.
fn kind(parameters: *mut GraphNodeParams) -> Result<NodeKind> {
    // SAFETY: `parameters` is null or valid for reads and writes: CUDA's contract of the function.
    let parameters = unsafe { parameters.as_mut() }.ok_or(Error::INVALID_VALUE)?;
    if parameters.reserved0 != [0; 3] || parameters.reserved2 != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let body = &mut parameters.body;
    match parameters.kind {
        NODE_KERNEL => graph_kernel_nodes::kernel(body.as_ptr().cast()),
        NODE_MEMCPY if body[..BEFORE_COPY] != [0; BEFORE_COPY] => Err(Error::INVALID_VALUE),
        NODE_MEMCPY => graph_copy_nodes::boxed(body[BEFORE_COPY..].as_ptr().cast()),
        NODE_MEMSET => graph_set_nodes::set(body.as_ptr().cast()),
        NODE_HOST => graph_host_nodes::call(body.as_ptr().cast()),
        NODE_GRAPH if body[1] as u32 != 0 => refuse("child graphs that are moved into their node"),
        NODE_GRAPH => Ok(NodeKind::Child(body[0] as usize)),
        NODE_EMPTY => Ok(NodeKind::Empty),
        NODE_WAIT_EVENT => graph_event_nodes::wait(body[0] as usize),
        NODE_EVENT_RECORD => graph_event_nodes::record(body[0] as usize),
        NODE_EXT_SEMAPHORE_SIGNAL | NODE_EXT_SEMAPHORE_WAIT => refuse("graph nodes of external semaphores"),
        NODE_MEM_ALLOC => {
            // SAFETY: the body begins with this structure, and is longer; it is as aligned.
            let allocation = unsafe { &mut *body.as_mut_ptr().cast::<MemAllocNodeParams>() };
            let memory = GraphMemory::new(gpu_of(&allocation.pool_props)?, allocation.byte_size)?;
            allocation.dptr = memory.address as *mut c_void;
            Ok(NodeKind::Alloc(memory))
        }
        NODE_MEM_FREE if body[0] == 0 => Err(Error::INVALID_VALUE),
        NODE_MEM_FREE => Ok(NodeKind::Free(body[0] as usize)),
        NODE_CONDITIONAL => refuse("conditional graph nodes"),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// The kind of what can be changed: memory's address is its node's for ever, and an empty node has nothing.
fn changed(parameters: *mut GraphNodeParams) -> Result<NodeKind> {
    // SAFETY: `parameters` is null or valid for reads and writes: CUDA's contract of the function.
    match unsafe { parameters.as_ref() }.ok_or(Error::INVALID_VALUE)?.kind {
        NODE_EMPTY | NODE_MEM_ALLOC | NODE_MEM_FREE => Err(Error::INVALID_VALUE),
        _ => kind(parameters),
    }
}

runtime! {
    fn cudaGraphAddNode(
        node: *mut usize, graph: usize, after: *const usize, _edges: *const u64, count: usize,
        parameters: *mut GraphNodeParams,
    ) {
        add(node, graph, after, count, kind(parameters)?)
    }

    fn cudaGraphNodeSetParams(node: usize, parameters: *mut GraphNodeParams) {
        match changed(parameters)? {
            NodeKind::Child(_) => refuse("changes of a child graph's node, except in an executable graph"),
            kind => change(node, kind),
        }
    }

    fn cudaGraphExecNodeSetParams(handle: usize, node: usize, parameters: *mut GraphNodeParams) {
        let exec = exec::find(handle)?;
        match changed(parameters)? {
            NodeKind::Child(child) => with(|graphs| exec.set_child(graphs, node, child)),
            kind => exec.set(node, kind),
        }
    }
}
