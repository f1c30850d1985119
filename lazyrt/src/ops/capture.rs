//! The beginning and the end of a capture: no GPU is waited for in between but by the program.

use std::ffi::c_void;

use mgb_core::captures;

use super::passthrough;
use crate::code::{Answer, Code};
use crate::handles::on;
use crate::native::Stream;
use crate::thread;

/// `cudaStreamBeginCapture`.
///
/// # Safety
/// The arguments meet the contract of `cudaStreamBeginCapture`.
pub unsafe fn begin(native: unsafe extern "C" fn(Stream, u32) -> Code, stream: Stream, mode: u32) -> Answer {
    // SAFETY: the program's arguments, and the runtime's stream for the program's.
    began(stream, |real| unsafe { native(real, mode) })
}

type BeginToGraph =
    unsafe extern "C" fn(Stream, *mut c_void, *const c_void, *const c_void, usize, u32) -> Code;

/// `cudaStreamBeginCaptureToGraph`.
///
/// # Safety
/// The arguments meet the contract of `cudaStreamBeginCaptureToGraph`.
pub unsafe fn begin_to_graph(
    native: BeginToGraph,
    stream: Stream,
    graph: *mut c_void,
    after: *const c_void,
    edges: *const c_void,
    count: usize,
    mode: u32,
) -> Answer {
    // SAFETY: as in `begin`.
    began(stream, |real| unsafe {
        native(real, graph, after, edges, count, mode)
    })
}

fn began(stream: Stream, call: impl FnOnce(Stream) -> Code) -> Answer {
    thread::with(|thread| thread.take_hint());
    passthrough::run_blind(|| on(stream, |real| captures::begin(real as usize, || call(real))))
}

/// `cudaStreamEndCapture`.
///
/// # Safety
/// The arguments meet the contract of `cudaStreamEndCapture`.
pub unsafe fn end(
    native: unsafe extern "C" fn(Stream, *mut *mut c_void) -> Code,
    stream: Stream,
    graph: *mut *mut c_void,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    passthrough::run_blind(|| {
        on(stream, |real| {
            // SAFETY: as in `begin`.
            let code = unsafe { native(real, graph) };
            captures::ended(real as usize, code);
            code
        })
    })
}
