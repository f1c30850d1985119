//! Executable graphs: making, launching and changing them.

use std::ffi::c_uint;

use mgb_abi::graph::{GraphExecUpdateResultInfo, GraphInstantiateParams};

use super::{put, runtime};
use crate::device::resolve;
use crate::driver::graph as driver;
use crate::driver_front;
use crate::error::{Error, Result};
use crate::graph::exec;

fn make(handle: *mut usize, graph: usize, flags: u64) -> Result {
    if handle.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    match driver_front::front() {
        Some(front) => front.cuGraphInstantiateWithFlags(handle, graph, flags),
        None => {
            put!(handle, driver::instantiate(graph, flags)?);
            Ok(())
        }
    }
}

runtime! {
    fn cudaGraphInstantiate(exec: *mut usize, graph: usize, flags: u64) {
        make(exec, graph, flags)
    }

    fn cudaGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: u64) {
        make(exec, graph, flags)
    }

    fn cudaGraphInstantiateWithParams(
        exec: *mut usize, graph: usize, parameters: *mut GraphInstantiateParams,
    ) {
        // SAFETY: `parameters` is null or valid for reads and writes: CUDA's contract of the function.
        let parameters = unsafe { parameters.as_mut() }.ok_or(Error::INVALID_VALUE)?;
        if let Some(front) = driver_front::front().filter(|_| !exec.is_null()) {
            return front.cuGraphInstantiateWithParams(exec, graph, parameters);
        }
        let made = make(exec, graph, parameters.flags);
        parameters.err_node = std::ptr::null_mut();
        parameters.result = driver::instantiate_result(made);
        made
    }

    fn cudaGraphExecGetFlags(handle: usize, flags: *mut u64) {
        put!(flags, exec::find(handle)?.flags);
        Ok(())
    }

    fn cudaGraphExecDestroy(handle: usize) {
        match driver_front::front() {
            Some(front) => front.cuGraphExecDestroy(handle),
            None => exec::destroy(handle),
        }
    }

    fn cudaGraphUpload(graph: usize, handle: usize) {
        let exec = exec::find(graph)?;
        resolve::stream(handle)?;
        match driver_front::front() {
            Some(front) => front.cuGraphUpload(graph, handle),
            None => exec.take_memory(),
        }
    }

    fn cudaGraphLaunch(graph: usize, handle: usize) {
        let exec = exec::find(graph)?;
        let (gpu, stream) = resolve::stream(handle)?;
        match driver_front::front() {
            Some(front) => front.cuGraphLaunch(graph, handle),
            None => exec.launch(gpu, &stream),
        }
    }

    fn cudaGraphExecUpdate(handle: usize, graph: usize, info: *mut GraphExecUpdateResultInfo) {
        match driver_front::front() {
            Some(front) => front.cuGraphExecUpdate(handle, graph, info),
            None => driver::update(handle, graph, info),
        }
    }

    fn cudaGraphNodeSetEnabled(handle: usize, node: usize, enabled: c_uint) {
        exec::find(handle)?.enable(node, enabled != 0)
    }

    fn cudaGraphNodeGetEnabled(handle: usize, node: usize, enabled: *mut c_uint) {
        put!(enabled, c_uint::from(exec::find(handle)?.enabled(node)?));
        Ok(())
    }
}
