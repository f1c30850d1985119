//! Graph nodes whose parameters hold an event or a device: the runtime gets its own.

use std::ffi::c_void;

use super::graphs::{self, AllocParams};
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

/// `cudaGraphNodeTypeMemcpy`.
const COPY: u32 = 1;

/// `cudaGraphNodeTypeWaitEvent`, `cudaGraphNodeTypeEventRecord`.
const EVENT_NODES: [u32; 2] = [6, 7];

const _: () = assert!(size_of::<Params>() == 256);

impl Params {
    /// What a node that allocates memory has.
    fn body(&mut self) -> *mut AllocParams {
        (&raw mut self.event).cast()
    }
}

/// The parameters with the runtime's event or device.
///
/// # Safety
/// `params` is null or valid for reads and writes.
unsafe fn with_own(params: *mut Params, call: impl FnOnce(*mut Params) -> Code) -> Answer {
    // SAFETY: null or valid: contract of this function.
    if let Some(asked) = unsafe { params.as_mut() }.filter(|asked| asked.kind == graphs::ALLOC) {
        let mut own = *asked;
        let (theirs, mine) = (asked.body(), own.body());
        // SAFETY: both are valid, and their kind says that they hold these parameters.
        unsafe {
            let (real, _list) = (*theirs).real()?;
            mine.write(real);
            let answer = opaque::run(|| call(&mut own));
            (*theirs).address = (*own.body()).address;
            return answer;
        }
    }
    // SAFETY: null or valid: contract of this function.
    if unsafe { params.as_ref() }.is_some_and(|asked| asked.kind == COPY) {
        return opaque::run_copy(|| call(params));
    }
    let mut problem = None;
    let answer = opaque::run(|| {
        // SAFETY: `params` is null or valid for reads: contract of this function.
        let Some(read) = (unsafe { params.as_ref() }) else {
            return call(params);
        };
        if !EVENT_NODES.contains(&read.kind) || !handles::is_own(read.event) {
            return call(params);
        }
        match handles::translate(Kind::Event, read.event) {
            Ok(event) => call(&mut Params { event, ..*read }),
            Err(error) => {
                problem = Some(error);
                Code::INVALID_HANDLE
            }
        }
    })?;
    problem.map_or(Ok(answer), Err)
}

type Add =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void, *const c_void, usize, *mut Params) -> Code;

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
    params: *mut Params,
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
    native: unsafe extern "C" fn(*mut c_void, *mut Params) -> Code,
    node: *mut c_void,
    params: *mut Params,
) -> Answer {
    // SAFETY: `params` is null or valid for reads and writes: contract of `cudaGraphNodeSetParams`.
    unsafe { with_own(params, |params| native(node, params)) }
}

/// `cudaGraphExecNodeSetParams`.
///
/// # Safety
/// The arguments meet the contract of `cudaGraphExecNodeSetParams`.
pub unsafe fn set_in_executable(
    native: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut Params) -> Code,
    graph: *mut c_void,
    node: *mut c_void,
    params: *mut Params,
) -> Answer {
    // SAFETY: `params` is null or valid for reads and writes: contract of `cudaGraphExecNodeSetParams`.
    unsafe { with_own(params, |params| native(graph, node, params)) }
}
