//! Nodes that allocate memory, or free it.

use std::ffi::c_void;

use mgb_abi::graph::MemAllocNodeParams;

use super::arguments::read;
use super::graph_nodes::{add, kind_of};
use super::{put, runtime};
use crate::address::graph_memory::GraphMemory;
use crate::driver::graph::memory_of;
use crate::driver::pool::gpu_of;
use crate::error::Error;
use crate::graph::NodeKind;

runtime! {
    fn cudaGraphAddMemAllocNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize,
        parameters: *mut MemAllocNodeParams,
    ) {
        let MemAllocNodeParams { pool_props, byte_size, .. } = read(parameters.cast_const())?;
        let memory = GraphMemory::new(gpu_of(&pool_props)?, byte_size)?;
        let address = memory.address as *mut c_void;
        add(node, graph, after, count, NodeKind::Alloc(memory))?;
        // SAFETY: `parameters` was read above, so it is not null; it is writable: CUDA's contract of the
        // function.
        unsafe { (*parameters).dptr = address };
        Ok(())
    }

    fn cudaGraphMemAllocNodeGetParams(node: usize, to: *mut MemAllocNodeParams) {
        put!(to, memory_of(node)?);
        Ok(())
    }

    fn cudaGraphAddMemFreeNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, pointer: *mut c_void,
    ) {
        if pointer.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        add(node, graph, after, count, NodeKind::Free(pointer as usize))
    }

    fn cudaGraphMemFreeNodeGetParams(node: usize, to: *mut *mut c_void) {
        let NodeKind::Free(address) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(to, address as *mut c_void);
        Ok(())
    }
}
