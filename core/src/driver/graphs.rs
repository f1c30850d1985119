//! What a graph consists of.

use std::ffi::c_int;

use mgb_abi::error::Code;
use mgb_abi::graph::{DriverKernelNodeParams, MemAllocNodeParams, NODE_GRAPH, NODE_KERNEL, NODE_MEM_ALLOC};
use mgb_abi::location::LOCATION_DEVICE;

use super::table::{Driver, call};

/// What a node of a graph is.
pub enum GraphNode {
    /// A kernel: its blocks, and the threads of each.
    Kernel([u32; 3], [u32; 3]),
    /// A graph within the graph.
    Graph(usize),
    /// Memory of a device that is allocated: the device, and the bytes.
    Memory(c_int, u64),
    /// A node of any other kind.
    Other,
}

impl Driver {
    /// The nodes of a graph.
    pub fn nodes(&self, graph: usize) -> Vec<usize> {
        let mut count = 0;
        let code = call!(self.cuGraphGetNodes(graph, std::ptr::null_mut(), &mut count,));
        let mut nodes = vec![0; if code == Code::SUCCESS { count } else { 0 }];
        if !nodes.is_empty() {
            let code = call!(self.cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count,));
            nodes.truncate(if code == Code::SUCCESS { count } else { 0 });
        }
        nodes
    }

    /// What a node is.
    pub fn node(&self, node: usize) -> GraphNode {
        let mut kind = u32::MAX;
        if call!(self.cuGraphNodeGetType(node, &mut kind)) != Code::SUCCESS {
            return GraphNode::Other;
        }
        match kind {
            NODE_KERNEL => {
                // SAFETY: all zeros is a valid value of each number.
                let mut kernel: DriverKernelNodeParams = unsafe { std::mem::zeroed() };
                match call!(self.cuGraphKernelNodeGetParams_v2(node, &mut kernel)) {
                    Code::SUCCESS => GraphNode::Kernel(kernel.grid.array(), kernel.block.array()),
                    _ => GraphNode::Other,
                }
            }
            NODE_MEM_ALLOC => {
                // SAFETY: all zeros is a valid value of each number and pointer.
                let mut memory: MemAllocNodeParams = unsafe { std::mem::zeroed() };
                match call!(self.cuGraphMemAllocNodeGetParams(node, &mut memory)) {
                    Code::SUCCESS if memory.pool_props.location.kind == LOCATION_DEVICE => {
                        GraphNode::Memory(memory.pool_props.location.id, memory.byte_size as u64)
                    }
                    _ => GraphNode::Other,
                }
            }
            NODE_GRAPH => {
                let mut graph = 0;
                match call!(self.cuGraphChildGraphNodeGetGraph(node, &mut graph)) {
                    Code::SUCCESS => GraphNode::Graph(graph),
                    _ => GraphNode::Other,
                }
            }
            _ => GraphNode::Other,
        }
    }
}
