//! Graph nodes whose parameters hold an event or a device: the runtime gets its own.

use std::ffi::c_void;

use mgb_abi::graph::{
    GraphNodeParams, MemAllocNodeParams, NODE_EVENT_RECORD, NODE_MEM_ALLOC, NODE_MEMCPY, NODE_WAIT_EVENT,
};

use super::graphs;
use super::passthrough;
use crate::code::{Answer, Code};
use crate::handles::{self, HandleKind};

/// What a node that allocates memory has.
fn allocation(params: &mut GraphNodeParams) -> *mut MemAllocNodeParams {
    params.body.as_mut_ptr().cast()
}

/// The parameters with the runtime's event or device.
///
/// # Safety
/// `params` is null or valid for reads and writes.
unsafe fn with_own(params: *mut GraphNodeParams, call: impl FnOnce(*mut GraphNodeParams) -> Code) -> Answer {
    // SAFETY: null or valid: contract of this function.
    if let Some(asked) = unsafe { params.as_mut() }.filter(|asked| asked.kind == NODE_MEM_ALLOC) {
        let mut own = *asked;
        let (theirs, mine) = (allocation(asked), allocation(&mut own));
        // SAFETY: both are valid, and their kind says that they hold these parameters.
        unsafe {
            let (real, _list) = graphs::real(&*theirs)?;
            mine.write(real);
            let answer = passthrough::run(|| call(&mut own));
            (*theirs).dptr = (*allocation(&mut own)).dptr;
            return answer;
        }
    }
    // SAFETY: null or valid: contract of this function.
    if unsafe { params.as_ref() }.is_some_and(|asked| asked.kind == NODE_MEMCPY) {
        return passthrough::run_copy(|| call(params));
    }
    let mut problem = None;
    let answer = passthrough::run(|| {
        // SAFETY: `params` is null or valid for reads: contract of this function.
        let Some(read) = (unsafe { params.as_ref() }) else {
            return call(params);
        };
        let event = read.body[0] as usize as *mut c_void;
        if !matches!(read.kind, NODE_WAIT_EVENT | NODE_EVENT_RECORD) || !handles::is_own(event) {
            return call(params);
        }
        match handles::translate(HandleKind::Event, event) {
            Ok(event) => {
                let mut own = *read;
                own.body[0] = event as usize as u64;
                call(&mut own)
            }
            Err(error) => {
                problem = Some(error);
                Code::INVALID_HANDLE
            }
        }
    })?;
    problem.map_or(Ok(answer), Err)
}

type Add = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *const c_void,
    *const c_void,
    usize,
    *mut GraphNodeParams,
) -> Code;

/// `cudaGraphAddNode`.
///
/// # Safety
/// The arguments meet the contract of `cudaGraphAddNode`.
pub unsafe fn add(
    native: Add,
    node: *mut c_void,
    graph: *mut c_void,
    dependencies: *const c_void,
    data: *const c_void,
    count: usize,
    params: *mut GraphNodeParams,
) -> Answer {
    // SAFETY: `params` is null or valid for reads and writes: contract of `cudaGraphAddNode`.
    unsafe {
        with_own(params, |params| {
            native(node, graph, dependencies, data, count, params)
        })
    }
}

/// `cudaGraphNodeSetParams`.
///
/// # Safety
/// The arguments meet the contract of `cudaGraphNodeSetParams`.
pub unsafe fn set(
    native: unsafe extern "C" fn(*mut c_void, *mut GraphNodeParams) -> Code,
    node: *mut c_void,
    params: *mut GraphNodeParams,
) -> Answer {
    // SAFETY: `params` is null or valid for reads and writes: contract of `cudaGraphNodeSetParams`.
    unsafe { with_own(params, |params| native(node, params)) }
}

/// `cudaGraphExecNodeSetParams`.
///
/// # Safety
/// The arguments meet the contract of `cudaGraphExecNodeSetParams`.
pub unsafe fn set_in_executable(
    native: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut GraphNodeParams) -> Code,
    graph: *mut c_void,
    node: *mut c_void,
    params: *mut GraphNodeParams,
) -> Answer {
    // SAFETY: `params` is null or valid for reads and writes: contract of `cudaGraphExecNodeSetParams`.
    unsafe { with_own(params, |params| native(graph, node, params)) }
}
