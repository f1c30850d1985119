//! Nodes that allocate memory, or free it.

use std::ffi::c_void;

use super::graph_nodes::{add, kind_of, read};
use super::pool::PoolProps;
use super::{put, runtime};
use crate::error::Error;
use crate::graph::{GraphMemory, Kind};

/// `cudaMemAllocNodeParams`: properties of a pool, access, bytes, the address.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocNodeParams {
    /// `cudaMemPoolProps`.
    pub pool: PoolProps,
    access: *const c_void,
    access_count: usize,
    /// Bytes.
    pub size: usize,
    /// Where they are.
    pub address: *mut c_void,
}

runtime! {
    fn cudaGraphAddMemAllocNode(node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *mut AllocNodeParams) {
        let AllocNodeParams { pool, size, .. } = read(parameters.cast_const())?;
        let memory = GraphMemory::new(pool.gpu()?, size)?;
        let address = memory.address as *mut c_void;
        add(node, graph, after, count, Kind::Alloc(memory))?;
        // SAFETY: it was read before.
        unsafe { (*parameters).address = address };
        Ok(())
    }

    fn cudaGraphMemAllocNodeGetParams(node: usize, to: *mut AllocNodeParams) {
        let Kind::Alloc(memory) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(to, AllocNodeParams {
            pool: PoolProps::of(memory.ordinal),
            access: std::ptr::null(),
            access_count: 0,
            size: memory.size,
            address: memory.address as *mut c_void,
        });
        Ok(())
    }

    fn cudaGraphAddMemFreeNode(node: *mut usize, graph: usize, after: *const usize, count: usize, pointer: *mut c_void) {
        if pointer.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        add(node, graph, after, count, Kind::Free(pointer as usize))
    }

    fn cudaGraphMemFreeNodeGetParams(node: usize, to: *mut *mut c_void) {
        let Kind::Free(address) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(to, address as *mut c_void);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<AllocNodeParams>(), 120);
    }
}
