//! Graphs: what they launch, and what memory they take. What a stream captures is no launch, and a graph's launch
//! is one of each of its kernels.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_ulonglong, c_void};

use mgb_abi::graph::{
    GraphInstantiateParams, GraphNodeParams, INSTANTIATE_UPLOAD, MemAllocNodeParams, NODE_MEM_ALLOC,
};
use mgb_abi::launch::DriverLaunchConfig;
use mgb_core::{captures, pace};
use parking_lot::RwLock;

use crate::calls::{Code, GraphNode, Stream, driver};
use crate::graph_memory::{self, Footprint};
use crate::kernels::{self, Warps};
use crate::native::{own, per_thread};
use crate::sources::{self, Source};
use crate::{driver_memory, session, stream_activity};

/// What launching a graph launches.
#[derive(Clone, Copy, Debug, Default)]
struct Kernels {
    count: u64,
    largest: Warps,
}

static KERNELS: RwLock<Option<HashMap<usize, Kernels>>> = RwLock::new(None);

/// A kernel was handed to the stream, on this GPU.
#[inline]
pub fn launched(gpu: u32, stream: Stream, kernel: u64, grid: [u32; 3], block: [u32; 3]) {
    pace::launched(gpu, stream, || {
        pace::key(kernel, grid.map(u64::from).into_iter().fold(1, u64::wrapping_mul))
    });
    if !captures::any() || !driver().is_capturing(stream) {
        kernels::launched(gpu, 1, Warps::of(grid, block));
    }
}

/// A kernel was launched by a function that takes a `CUlaunchConfig`.
#[inline]
pub fn launched_as(gpu: u32, stream: Stream, config: u64, kernel: u64) {
    // SAFETY: null, or a whole structure: CUDA's contract of the functions that take one.
    if let Some(config) = unsafe { (config as usize as *const DriverLaunchConfig).as_ref() } {
        launched(gpu, stream, kernel, config.grid.array(), config.block.array());
    }
}

/// An instance of a graph was launched on the GPU.
fn launched_graph(gpu: u32, instance: usize, stream: Stream) {
    // In a capture it becomes a part of the graph.
    if captures::any() && driver().is_capturing(stream) {
        return;
    }
    pace::launched(gpu, stream, || pace::key(instance as u64, 0));
    let known = KERNELS
        .read()
        .as_ref()
        .and_then(|known| known.get(&instance).copied());
    if let Some(Kernels { count, largest }) = known {
        kernels::launched(gpu, count, largest);
    }
}

/// What is in a graph, and in the graphs in it. What a condition runs is not known.
#[derive(Default)]
struct Contents {
    kernels: Kernels,
    memory: Footprint,
}

impl Contents {
    fn of(graph: usize) -> Contents {
        let mut all = Contents::default();
        all.add(graph);
        all
    }

    fn add(&mut self, graph: usize) {
        let nodes = driver().nodes(graph);
        if nodes.is_empty() {
            self.memory.join(&graph_memory::added_to(graph));
        }
        for node in nodes {
            match driver().node(node) {
                GraphNode::Kernel(grid, block) => {
                    self.kernels.count += 1;
                    self.kernels.largest = self.kernels.largest.max(Warps::of(grid, block));
                }
                GraphNode::Graph(inner) => self.add(inner),
                GraphNode::Memory(device, bytes) => self.memory.add(device, bytes),
                GraphNode::Other => {}
            }
        }
    }

    /// An executable graph has these.
    fn note(self, instance: usize) {
        KERNELS
            .write()
            .get_or_insert_default()
            .insert(instance, self.kernels);
        graph_memory::note(instance, self.memory);
    }
}

/// Makes an executable graph; `uploads`: which takes its memory at once.
///
/// # Safety
/// After a success of `call`, `instance` is valid for reading.
unsafe fn instantiate(call: impl Fn() -> Code, instance: *const usize, graph: usize, uploads: bool) -> Code {
    if session::get().is_none() {
        return driver_memory::give(call);
    }
    let code = if uploads {
        graph_memory::upload(&Contents::of(graph).memory, call)
    } else {
        driver_memory::give(call)
    };
    if code == Code::SUCCESS && !instance.is_null() {
        // SAFETY: the caller's promise.
        Contents::of(graph).note(unsafe { instance.read() });
    }
    code
}

/// Whether these parameters have an executable graph take its memory when it is made.
///
/// # Safety
/// `parameters` is null or can be read.
unsafe fn uploads(parameters: *const GraphInstantiateParams) -> bool {
    // SAFETY: contract of this function.
    let parameters = unsafe { parameters.as_ref() };
    parameters.is_some_and(|parameters| parameters.flags & INSTANTIATE_UPLOAD != 0)
}

/// A node of any kind was added to a graph.
///
/// # Safety
/// `parameters` is null or can be read.
unsafe fn added(code: Code, graph: usize, parameters: *const GraphNodeParams) -> Code {
    // SAFETY: contract of this function.
    let parameters = unsafe { parameters.as_ref() };
    let memory = parameters.filter(|parameters| code == Code::SUCCESS && parameters.kind == NODE_MEM_ALLOC);
    if let Some(memory) = memory.filter(|_| session::get().is_some()) {
        // SAFETY: the union has the parameters of this kind, and is as large.
        unsafe { graph_memory::added(graph, memory.body.as_ptr().cast()) };
    }
    code
}

/// An executable graph was made like another graph.
fn updated(code: Code, instance: usize, graph: usize) -> Code {
    if code == Code::SUCCESS && session::get().is_some() {
        Contents::of(graph).note(instance);
    }
    code
}

/// A launch was handed to the stream.
fn launched_instance(code: Code, instance: usize, stream: Stream) -> Code {
    if let Some(gpu) = stream_activity::note(stream)
        && code == Code::SUCCESS
    {
        launched_graph(gpu, instance, stream);
    }
    code
}

fn began(stream: Stream, call: impl FnOnce() -> Code) -> Code {
    captures::begin(stream, call)
}

fn ended(stream: Stream, code: Code) -> Code {
    captures::ended(stream, code);
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
        unsafe { instantiate(|| native(instance, graph, node, log, bytes), instance, graph, false) }
    }

    fn cuGraphInstantiate_v2(
        instance: *mut usize, graph: usize, node: *mut usize, log: *mut c_char, bytes: usize,
    ) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { instantiate(|| native(instance, graph, node, log, bytes), instance, graph, false) }
    }

    fn cuGraphInstantiateWithFlags(instance: *mut usize, graph: usize, flags: c_ulonglong) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { instantiate(|| native(instance, graph, flags), instance, graph, flags & INSTANTIATE_UPLOAD != 0) }
    }

    fn cuGraphInstantiateWithParams(instance: *mut usize, graph: usize, parameters: *mut GraphInstantiateParams) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { instantiate(|| native(instance, graph, parameters), instance, graph, uploads(parameters)) }
    }

    fn cuGraphInstantiateWithParams_ptsz(
        instance: *mut usize, graph: usize, parameters: *mut GraphInstantiateParams,
    ) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { instantiate(|| native(instance, graph, parameters), instance, graph, uploads(parameters)) }
    }

    fn cuGraphExecDestroy(instance: usize) |native| {
        if let Some(known) = KERNELS.write().as_mut() {
            known.remove(&instance);
        }
        graph_memory::forget(instance);
        native(instance)
    }

    fn cuGraphAddMemAllocNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize,
        parameters: *mut MemAllocNodeParams,
    ) |native| {
        let code = native(node, graph, after, count, parameters);
        if code == Code::SUCCESS && !parameters.is_null() && session::get().is_some() {
            // SAFETY: not null, so a whole structure: CUDA's contract of the function.
            unsafe { graph_memory::added(graph, parameters) };
        }
        code
    }

    fn cuGraphAddNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *mut GraphNodeParams,
    ) |native| {
        let code = native(node, graph, after, count, parameters);
        // SAFETY: CUDA's contract of the function.
        unsafe { added(code, graph, parameters) }
    }

    fn cuGraphAddNode_v2(
        node: *mut usize, graph: usize, after: *const usize, edges: *const c_void, count: usize,
        parameters: *mut GraphNodeParams,
    ) |native| {
        let code = native(node, graph, after, edges, count, parameters);
        // SAFETY: CUDA's contract of the function.
        unsafe { added(code, graph, parameters) }
    }

    fn cuGraphDestroy(graph: usize) |native| {
        graph_memory::graph_gone(graph);
        native(graph)
    }

    fn cuGraphExecUpdate(
        instance: usize, graph: usize, node: *mut usize, result: *mut c_int,
    ) |native| {
        updated(native(instance, graph, node, result), instance, graph)
    }

    fn cuGraphExecUpdate_v2(instance: usize, graph: usize, result: *mut c_void) |native| {
        updated(native(instance, graph, result), instance, graph)
    }

    fn cuGraphExecChildGraphNodeSetParams(instance: usize, node: usize, child: usize) |native| {
        let code = native(instance, node, child);
        if code == Code::SUCCESS && session::get().is_some() {
            graph_memory::note_more(instance, &Contents::of(child).memory);
        }
        code
    }

    fn cuGraphLaunch(instance: usize, stream: Stream) |native| {
        pace::before_launch(stream_activity::likely_gpu);
        let code = graph_memory::run(instance, stream, || native(instance, stream));
        launched_instance(code, instance, stream)
    }

    fn cuGraphLaunch_ptsz(instance: usize, stream: Stream) |native| {
        pace::before_launch(stream_activity::likely_gpu);
        let code = graph_memory::run(instance, per_thread(stream), || native(instance, stream));
        launched_instance(code, instance, per_thread(stream))
    }

    fn cuGraphUpload(instance: usize, stream: Stream) |native| {
        graph_memory::run(instance, stream, || native(instance, stream))
    }

    fn cuGraphUpload_ptsz(instance: usize, stream: Stream) |native| {
        graph_memory::run(instance, per_thread(stream), || native(instance, stream))
    }

    fn cuDeviceGraphMemTrim(device: c_int) |native| {
        let code = native(device);
        sources::settle(Source::Graphs(device));
        code
    }
}
