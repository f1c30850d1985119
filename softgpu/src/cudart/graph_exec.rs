//! Executable graphs: making, launching and changing them.

use std::ffi::{c_int, c_uint};

use super::{put, runtime};
use crate::error::{Error, Result, say_once};
use crate::graph::{exec, with};
use crate::stream::handle;

/// `cudaGraphInstantiateParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InstantiateParams {
    /// `cudaGraphInstantiateFlags`.
    pub flags: u64,
    /// Nothing needs to be uploaded.
    pub upload: usize,
    /// The node that could not be.
    pub error_node: usize,
    /// `cudaGraphInstantiateResult`.
    pub result: c_int,
}

/// `cudaGraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UpdateResult {
    /// `cudaGraphExecUpdateResult`.
    pub result: c_int,
    /// The node that is unlike.
    pub node: usize,
    /// The node that it comes after.
    pub from: usize,
}

/// `cudaGraphInstantiateFlagDeviceLaunch`.
const DEVICE_LAUNCH: u64 = 4;

fn make(handle: *mut usize, graph: usize, flags: u64) -> Result {
    if handle.is_null() || flags & !15 != 0 {
        return Err(Error::INVALID_VALUE);
    }
    if flags & DEVICE_LAUNCH != 0 {
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

    fn cudaGraphInstantiateWithParams(exec: *mut usize, graph: usize, parameters: *mut InstantiateParams) {
        // SAFETY: null or the caller's structure.
        let parameters = unsafe { parameters.as_mut() }.ok_or(Error::INVALID_VALUE)?;
        let made = make(exec, graph, parameters.flags);
        parameters.error_node = 0;
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

    fn cudaGraphUpload(handle: usize, stream: usize) {
        let exec = exec::find(handle)?;
        handle::resolve(stream)?;
        exec.take_memory()
    }

    fn cudaGraphLaunch(handle: usize, stream: usize) {
        let exec = exec::find(handle)?;
        let (gpu, stream) = handle::resolve(stream)?;
        exec.launch(gpu, &stream)
    }

    fn cudaGraphExecUpdate(handle: usize, graph: usize, info: *mut UpdateResult) {
        let exec = exec::find(handle)?;
        let updated = with(|graphs| exec.update(graphs, graph))?;
        let (result, node) = updated.err().map_or((0, 0), |unlike| (unlike.result, unlike.node));
        if !info.is_null() {
            put!(info, UpdateResult { result, node, from: 0 });
        }
        updated.map_err(|_| Error::GRAPH_UPDATE_FAILURE)
    }

    fn cudaGraphNodeSetEnabled(handle: usize, node: usize, enabled: c_uint) {
        exec::find(handle)?.enable(node, enabled != 0)
    }

    fn cudaGraphNodeGetEnabled(handle: usize, node: usize, enabled: *mut c_uint) {
        put!(enabled, c_uint::from(exec::find(handle)?.enabled(node)?));
        Ok(())
    }
}
