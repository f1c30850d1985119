//! Graph nodes whose parameters hold an event: the runtime gets its own.

use std::ffi::c_void;

use super::opaque;
use crate::code::{Answer, Code};
use crate::handles::{self, Kind};

/// `cudaGraphNodeParams`: what lazyrt reads of it, and the rest as bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct Params {
    kind: u32,
    reserved: [u32; 3],
    /// Of the two below the event, else whatever the kind has.
    event: *mut c_void,
    rest: [u64; 29],
}

/// `cudaGraphNodeTypeWaitEvent`, `cudaGraphNodeTypeEventRecord`.
const EVENT_NODES: [u32; 2] = [6, 7];

const _: () = assert!(size_of::<Params>() == 256);

/// The parameters with the runtime's event.
///
/// # Safety
/// Null, or whole parameters.
unsafe fn with_events(params: *const Params, call: impl FnOnce(*const Params) -> Code) -> Answer {
    let mut problem = None;
    let answer = opaque::run(|| {
        // SAFETY: the caller says so.
        let Some(read) = (unsafe { params.as_ref() }) else {
            return call(params);
        };
        if !EVENT_NODES.contains(&read.kind) || !handles::is_own(read.event) {
            return call(params);
        }
        match handles::translate(Kind::Event, read.event) {
            Ok(event) => call(&Params { event, ..*read }),
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
    *const Params,
) -> Code;

/// `cudaGraphAddNode`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn add(
    native: Add,
    node: *mut c_void,
    graph: *mut c_void,
    dependencies: *const c_void,
    data: *const c_void,
    count: usize,
    params: *const Params,
) -> Answer {
    // SAFETY: the caller says so.
    unsafe {
        with_events(params, |params| {
            native(node, graph, dependencies, data, count, params)
        })
    }
}

/// `cudaGraphNodeSetParams`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn set(
    native: unsafe extern "C" fn(*mut c_void, *const Params) -> Code,
    node: *mut c_void,
    params: *const Params,
) -> Answer {
    // SAFETY: the caller says so.
    unsafe { with_events(params, |params| native(node, params)) }
}

/// `cudaGraphExecNodeSetParams`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn set_in_executable(
    native: unsafe extern "C" fn(*mut c_void, *mut c_void, *const Params) -> Code,
    graph: *mut c_void,
    node: *mut c_void,
    params: *const Params,
) -> Answer {
    // SAFETY: the caller says so.
    unsafe { with_events(params, |params| native(graph, node, params)) }
}
