//! The runtime's functions for kernel nodes of graphs.

use std::ffi::c_void;
use std::sync::Arc;

use mgb_abi::graph::KernelNodeParams;
use mgb_abi::launch::Dim3;

use super::arguments::read;
use super::graph_nodes::{action_of, add, change, work};
use super::{put, runtime};
use crate::device::current;
use crate::error::{Error, Result, say_once};
use crate::exec::registry;
use crate::graph::{NodeKind, exec};
use crate::kernel::launch::{CheckedLaunch, LaunchShape};
use crate::work::Action;

/// A kernel node.
///
/// # Errors
/// Those of a launch.
pub fn kernel(parameters: *const KernelNodeParams) -> Result<NodeKind> {
    let parameters = read(parameters)?;
    if !parameters.extra.is_null() {
        say_once("kernel nodes with `extra` are not supported by the software GPU; use `kernelParams`");
        return Err(Error::NOT_SUPPORTED);
    }
    let shape = LaunchShape {
        grid: parameters.grid.array(),
        block: parameters.block.array(),
        shared: parameters.shared_mem_bytes as usize,
        cooperative: false,
    };
    let function = registry::function(parameters.func as usize)?;
    let arguments = parameters.kernel_params.cast_const().cast();
    // SAFETY: `arguments` points to a value for each parameter of the kernel: CUDA's contract of a launch.
    let launch = unsafe { CheckedLaunch::new(current::active()?, function, shape, arguments)? };
    work(Action::Kernel(Arc::new(launch)))
}

runtime! {
    fn cudaGraphAddKernelNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize,
        parameters: *const KernelNodeParams,
    ) {
        add(node, graph, after, count, kernel(parameters)?)
    }

    fn cudaGraphKernelNodeGetParams(node: usize, to: *mut KernelNodeParams) {
        let Action::Kernel(launch) = action_of(node)? else { return Err(Error::INVALID_VALUE) };
        let [grid, block] = [launch.shape.grid, launch.shape.block].map(|[x, y, z]| Dim3 { x, y, z });
        // The arguments are there as long as the node is not changed.
        put!(to, KernelNodeParams {
            func: launch.function.stub as *mut c_void,
            grid,
            block,
            shared_mem_bytes: launch.shape.shared as u32,
            kernel_params: launch.arguments().cast_mut().cast(),
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
