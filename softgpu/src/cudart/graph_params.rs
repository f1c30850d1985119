//! Nodes of any kind, by the one structure that describes them all.

use std::ffi::{c_int, c_void};

use super::graph_memory_nodes::AllocNodeParams;
use super::graph_nodes::{add, change};
use super::{
    graph_copy_nodes, graph_event_nodes, graph_host_nodes, graph_kernel_nodes, graph_set_nodes, runtime,
};
use crate::error::{Error, Result, say_once};
use crate::graph::{GraphMemory, Kind, exec, with};

/// `cudaGraphNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NodeParams {
    /// `cudaGraphNodeType`.
    pub kind: c_int,
    /// Zero.
    pub reserved: [c_int; 3],
    /// What that kind has.
    pub body: [u64; 29],
    /// Zero.
    pub padding: u64,
}

/// `cudaGraphNodeTypeGraph`.
const CHILD: c_int = 4;
/// `cudaGraphNodeTypeMemAlloc`.
const ALLOCATION: c_int = 10;

/// `cudaMemcpyNodeParams` has 16 bytes before the copy.
const BEFORE_COPY: usize = 2;

fn refuse<T>(what: &str) -> Result<T> {
    say_once(&format!("{what} are not supported by the software GPU"));
    Err(Error::NOT_SUPPORTED)
}

/// What a node of these parameters does; an allocation's address is written back.
fn kind(parameters: *mut NodeParams) -> Result<Kind> {
    // SAFETY: null or the caller's structure.
    let parameters = unsafe { parameters.as_mut() }.ok_or(Error::INVALID_VALUE)?;
    if parameters.reserved != [0; 3] || parameters.padding != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let body = &mut parameters.body;
    match parameters.kind {
        0 => graph_kernel_nodes::kernel(body.as_ptr().cast()),
        1 if body[..BEFORE_COPY] != [0; BEFORE_COPY] => Err(Error::INVALID_VALUE),
        1 => graph_copy_nodes::boxed(body[BEFORE_COPY..].as_ptr().cast()),
        2 => graph_set_nodes::set(body.as_ptr().cast()),
        3 => graph_host_nodes::call(body.as_ptr().cast()),
        CHILD if body[1] as u32 != 0 => refuse("child graphs that are moved into their node"),
        CHILD => Ok(Kind::Child(body[0] as usize)),
        5 => Ok(Kind::Empty),
        6 => graph_event_nodes::wait(body[0] as usize),
        7 => graph_event_nodes::record(body[0] as usize),
        8 | 9 => refuse("graph nodes of external semaphores"),
        ALLOCATION => {
            // SAFETY: the body begins with this structure, and is longer; it is as aligned.
            let allocation = unsafe { &mut *body.as_mut_ptr().cast::<AllocNodeParams>() };
            let memory = GraphMemory::new(allocation.pool.gpu()?, allocation.size)?;
            allocation.address = memory.address as *mut c_void;
            Ok(Kind::Alloc(memory))
        }
        11 if body[0] == 0 => Err(Error::INVALID_VALUE),
        11 => Ok(Kind::Free(body[0] as usize)),
        13 => refuse("conditional graph nodes"),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// The kind of what can be changed: memory's address is its node's for ever, and an empty node has nothing.
fn changed(parameters: *mut NodeParams) -> Result<Kind> {
    // SAFETY: null or the caller's structure.
    match unsafe { parameters.as_ref() }.ok_or(Error::INVALID_VALUE)?.kind {
        5 | ALLOCATION | 11 => Err(Error::INVALID_VALUE),
        _ => kind(parameters),
    }
}

runtime! {
    fn cudaGraphAddNode(node: *mut usize, graph: usize, after: *const usize, _edges: *const u64, count: usize, parameters: *mut NodeParams) {
        add(node, graph, after, count, kind(parameters)?)
    }

    fn cudaGraphNodeSetParams(node: usize, parameters: *mut NodeParams) {
        match changed(parameters)? {
            Kind::Child(_) => refuse("changes of a child graph's node, except in an executable graph"),
            kind => change(node, kind),
        }
    }

    fn cudaGraphExecNodeSetParams(handle: usize, node: usize, parameters: *mut NodeParams) {
        let exec = exec::find(handle)?;
        match changed(parameters)? {
            Kind::Child(child) => with(|graphs| exec.set_child(graphs, node, child)),
            kind => exec.set(node, kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<NodeParams>(), 256);
        assert_eq!(std::mem::offset_of!(NodeParams, body), 16);
    }
}
