//! Kernel nodes.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use super::graph_nodes::{action_of, add, change, read, work};
use super::{Dim3, put, runtime};
use crate::device::current;
use crate::error::{Error, Result, say_once};
use crate::exec::launch::{Launch, Shape};
use crate::exec::registry;
use crate::graph::{Kind, exec};
use crate::work::Action;

/// `cudaKernelNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNodeParams {
    /// The host stub.
    pub function: usize,
    /// Blocks.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Dynamic shared memory.
    pub shared: c_uint,
    /// A pointer to each argument.
    pub arguments: *mut *mut c_void,
    /// The other way to give arguments.
    pub extra: *mut *mut c_void,
}

/// A kernel node.
///
/// # Errors
/// Those of a launch.
pub fn kernel(parameters: *const KernelNodeParams) -> Result<Kind> {
    let parameters = read(parameters)?;
    if !parameters.extra.is_null() {
        say_once("kernel nodes with `extra` are not supported by the software GPU; use `kernelParams`");
        return Err(Error::NOT_SUPPORTED);
    }
    let shape = Shape {
        grid: parameters.grid.array(),
        block: parameters.block.array(),
        shared: parameters.shared as usize,
        cooperative: false,
    };
    let function = registry::function(parameters.function)?;
    let arguments = parameters.arguments.cast_const().cast();
    // SAFETY: the caller passes what the kernel's parameters ask for.
    let launch = unsafe { Launch::new(current::active()?, function, shape, arguments)? };
    work(Action::Kernel(Arc::new(launch)))
}

runtime! {
    fn cudaGraphAddKernelNode(node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const KernelNodeParams) {
        add(node, graph, after, count, kernel(parameters)?)
    }

    fn cudaGraphKernelNodeGetParams(node: usize, to: *mut KernelNodeParams) {
        let Action::Kernel(launch) = action_of(node)? else { return Err(Error::INVALID_VALUE) };
        let [grid, block] = [launch.shape.grid, launch.shape.block].map(|[x, y, z]| Dim3 { x, y, z });
        // The arguments are there as long as the node is not changed.
        put!(to, KernelNodeParams {
            function: launch.function.stub,
            grid,
            block,
            shared: launch.shape.shared as c_uint,
            arguments: launch.arguments().cast_mut().cast(),
            extra: std::ptr::null_mut(),
        });
        Ok(())
    }

    fn cudaGraphKernelNodeSetParams(node: usize, parameters: *const KernelNodeParams) {
        change(node, kernel(parameters)?)
    }

    fn cudaGraphExecKernelNodeSetParams(handle: usize, node: usize, parameters: *const KernelNodeParams) {
        exec::find(handle)?.set(node, kernel(parameters)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<KernelNodeParams>(), 56);
    }
}
