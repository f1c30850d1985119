//! Executable graphs: making, launching and changing them.

use std::ffi::{c_uint, c_void};

use mgb_abi::graph::{
    GraphExecUpdateResultInfo, GraphInstantiateParams, INSTANTIATE_AUTO_FREE_ON_LAUNCH,
    INSTANTIATE_DEVICE_LAUNCH, INSTANTIATE_UPLOAD, INSTANTIATE_USE_NODE_PRIORITY,
};

use super::{put, runtime};
use crate::device::resolve;
use crate::error::{Error, Result, say_once};
use crate::graph::{exec, with};
use crate::through;

/// All flags that there are.
const FLAGS: u64 = INSTANTIATE_AUTO_FREE_ON_LAUNCH
    | INSTANTIATE_UPLOAD
    | INSTANTIATE_DEVICE_LAUNCH
    | INSTANTIATE_USE_NODE_PRIORITY;

fn make(handle: *mut usize, graph: usize, flags: u64) -> Result {
    if handle.is_null() || flags & !FLAGS != 0 {
        return Err(Error::INVALID_VALUE);
    }
    if flags & INSTANTIATE_DEVICE_LAUNCH != 0 {
        say_once("graphs that kernels launch are not supported by the software GPU");
        return Err(Error::NOT_SUPPORTED);
    }
    put!(handle, with(|graphs| exec::instantiate(graphs, graph, flags))?);
    Ok(())
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
        let made = make(exec, graph, parameters.flags);
        parameters.err_node = std::ptr::null_mut();
        parameters.result = match made {
            Ok(()) => 0,
            Err(Error::NOT_SUPPORTED) => 3,
            Err(_) => 1,
        };
        made
    }

    fn cudaGraphExecGetFlags(handle: usize, flags: *mut u64) {
        put!(flags, exec::find(handle)?.flags);
        Ok(())
    }

    fn cudaGraphExecDestroy(handle: usize) {
        exec::destroy(handle)
    }

    fn cudaGraphUpload(graph: usize, handle: usize) {
        let exec = exec::find(graph)?;
        resolve::stream(handle)?;
        match through::front() {
            Some(front) => front.cuGraphUpload(graph, handle),
            None => exec.take_memory(),
        }
    }

    fn cudaGraphLaunch(graph: usize, handle: usize) {
        let exec = exec::find(graph)?;
        let (gpu, stream) = resolve::stream(handle)?;
        match through::front() {
            Some(front) => front.cuGraphLaunch(graph, handle),
            None => exec.launch(gpu, &stream),
        }
    }

    fn cudaGraphExecUpdate(handle: usize, graph: usize, info: *mut GraphExecUpdateResultInfo) {
        let exec = exec::find(handle)?;
        let updated = with(|graphs| exec.update(graphs, graph))?;
        let (result, node) = updated.err().map_or((0, 0), |unlike| (unlike.result, unlike.node));
        if !info.is_null() {
            put!(info, GraphExecUpdateResultInfo {
                result,
                error_node: node as *mut c_void,
                error_from_node: std::ptr::null_mut(),
            });
        }
        updated.map_err(|_| Error::GRAPH_EXEC_UPDATE_FAILURE)
    }

    fn cudaGraphNodeSetEnabled(handle: usize, node: usize, enabled: c_uint) {
        exec::find(handle)?.enable(node, enabled != 0)
    }

    fn cudaGraphNodeGetEnabled(handle: usize, node: usize, enabled: *mut c_uint) {
        put!(enabled, c_uint::from(exec::find(handle)?.enabled(node)?));
        Ok(())
    }
}
