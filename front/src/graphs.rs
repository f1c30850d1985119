//! Kernels that are launched by graphs: what a stream captures is no launch, and a graph's launch is one of
//! each of its kernels.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_ulonglong, c_void};

use mgb_abi::launch::DriverLaunchConfig;
use mgb_core::captures;
use parking_lot::RwLock;

use crate::calls::{self, Code, Node, SUCCESS, Stream};
use crate::kernels::{self, Warps};
use crate::native::own;
use crate::{driver_memory, session};

/// What launching a graph launches.
#[derive(Clone, Copy, Debug, Default)]
struct Kernels {
    count: u64,
    largest: Warps,
}

static KERNELS: RwLock<Option<HashMap<usize, Kernels>>> = RwLock::new(None);

/// A kernel was handed to the stream, on this GPU.
#[inline]
pub fn launched(gpu: u32, stream: Stream, grid: [u32; 3], block: [u32; 3]) {
    if !captures::any() || !calls::is_capturing(stream) {
        kernels::launched(gpu, 1, Warps::of(grid, block));
    }
}

/// A kernel was launched by a function that takes a `CUlaunchConfig`.
#[inline]
pub fn launched_as(gpu: u32, stream: Stream, config: u64) {
    // SAFETY: null, or a whole structure: CUDA's contract of the functions that take one.
    if let Some(config) = unsafe { (config as usize as *const DriverLaunchConfig).as_ref() } {
        launched(gpu, stream, config.grid.array(), config.block.array());
    }
}

/// An instance of a graph was launched on the GPU.
pub fn launched_graph(gpu: u32, instance: usize, stream: Stream) {
    // In a capture it becomes a part of the graph.
    if captures::any() && calls::is_capturing(stream) {
        return;
    }
    let known = KERNELS
        .read()
        .as_ref()
        .and_then(|known| known.get(&instance).copied());
    if let Some(Kernels { count, largest }) = known {
        kernels::launched(gpu, count, largest);
    }
}

/// The kernels of a graph, and of the graphs in it. What a condition runs is not known.
fn kernels_of(graph: usize) -> Kernels {
    let mut all = Kernels::default();
    for node in calls::nodes(graph) {
        match calls::node(node) {
            Node::Kernel(grid, block) => {
                all.count += 1;
                all.largest = all.largest.max(Warps::of(grid, block));
            }
            Node::Graph(inner) => {
                let inner = kernels_of(inner);
                all.count += inner.count;
                all.largest = all.largest.max(inner.largest);
            }
            Node::Other => {}
        }
    }
    all
}

/// Makes an instance of a graph.
///
/// # Safety
/// After a success of `call`, `instance` is valid for reading.
unsafe fn instantiate(call: impl Fn() -> Code, instance: *const usize, graph: usize) -> Code {
    let code = driver_memory::give(call);
    if code == SUCCESS && !instance.is_null() && session::get().is_some() {
        // SAFETY: the caller's promise.
        let instance = unsafe { instance.read() };
        let kernels = kernels_of(graph);
        KERNELS.write().get_or_insert_default().insert(instance, kernels);
    }
    code
}

fn began(stream: Stream, call: impl FnOnce() -> Code) -> Code {
    captures::begin(stream, || call() as u32) as Code
}

fn ended(stream: Stream, code: Code) -> Code {
    captures::ended(stream, code as u32);
    code
}

own! {
    fn cuStreamBeginCapture(stream: Stream) |native| {
        began(stream, || native(stream))
    }

    fn cuStreamBeginCapture_ptsz(stream: Stream) |native| {
        began(stream, || native(stream))
    }

    fn cuStreamBeginCapture_v2(stream: Stream, mode: c_int) |native| {
        began(stream, || native(stream, mode))
    }

    fn cuStreamBeginCapture_v2_ptsz(stream: Stream, mode: c_int) |native| {
        began(stream, || native(stream, mode))
    }

    fn cuStreamBeginCaptureToGraph(
        stream: Stream, graph: usize, after: *const usize, edges: *const c_void, count: usize, mode: c_int,
    ) |native| {
        began(stream, || native(stream, graph, after, edges, count, mode))
    }

    fn cuStreamBeginCaptureToGraph_ptsz(
        stream: Stream, graph: usize, after: *const usize, edges: *const c_void, count: usize, mode: c_int,
    ) |native| {
        began(stream, || native(stream, graph, after, edges, count, mode))
    }

    fn cuStreamEndCapture(stream: Stream, graph: *mut usize) |native| {
        ended(stream, native(stream, graph))
    }

    fn cuStreamEndCapture_ptsz(stream: Stream, graph: *mut usize) |native| {
        ended(stream, native(stream, graph))
    }

    fn cuGraphInstantiate(
        instance: *mut usize, graph: usize, node: *mut usize, log: *mut c_char, bytes: usize,
    ) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { instantiate(|| native(instance, graph, node, log, bytes), instance, graph) }
    }

    fn cuGraphInstantiate_v2(
        instance: *mut usize, graph: usize, node: *mut usize, log: *mut c_char, bytes: usize,
    ) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { instantiate(|| native(instance, graph, node, log, bytes), instance, graph) }
    }

    fn cuGraphInstantiateWithFlags(instance: *mut usize, graph: usize, flags: c_ulonglong) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { instantiate(|| native(instance, graph, flags), instance, graph) }
    }

    fn cuGraphInstantiateWithParams(instance: *mut usize, graph: usize, parameters: *mut c_void) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { instantiate(|| native(instance, graph, parameters), instance, graph) }
    }

    fn cuGraphInstantiateWithParams_ptsz(
        instance: *mut usize, graph: usize, parameters: *mut c_void,
    ) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { instantiate(|| native(instance, graph, parameters), instance, graph) }
    }

    fn cuGraphExecDestroy(instance: usize) |native| {
        if let Some(known) = KERNELS.write().as_mut() {
            known.remove(&instance);
        }
        native(instance)
    }
}
