//! Graphs and capture.

mod common;
#[path = "kernels/device.rs"]
mod device;

use std::ffi::c_void;
use std::sync::Mutex;

use common::{MIB, in_child, ok};
use device::{STUBS, TestKernel, register};
use mgb_abi::graph::{GraphExecUpdateResultInfo, HostNodeParams, KernelNodeParams, MemsetParams};
use mgb_abi::launch::Dim3;
use softgpu::cudart::capture::*;
use softgpu::cudart::copy::{cudaMemcpy, cudaMemcpyAsync};
use softgpu::cudart::device::cudaDeviceSynchronize;
use softgpu::cudart::event::*;
use softgpu::cudart::graph::*;
use softgpu::cudart::graph_copy_nodes::cudaGraphAddMemcpyNode1D;
use softgpu::cudart::graph_event_nodes::cudaGraphAddEventRecordNode;
use softgpu::cudart::graph_exec::*;
use softgpu::cudart::graph_host_nodes::*;
use softgpu::cudart::graph_kernel_nodes::*;
use softgpu::cudart::graph_nodes::*;
use softgpu::cudart::graph_set_nodes::*;
use softgpu::cudart::host::cudaMallocHost;
use softgpu::cudart::launch::cudaLaunchKernel;
use softgpu::cudart::memory::{cudaFree, cudaMalloc, cudaMemGetInfo};
use softgpu::cudart::pool::{cudaFreeAsync, cudaMallocAsync};
use softgpu::cudart::set::{cudaMemset, cudaMemsetAsync};
use softgpu::cudart::stream::*;

const DEVICES: &str = "1x64MiB";
const INVALID_VALUE: i32 = 1;
const ILLEGAL_STATE: i32 = 401;
const UNSUPPORTED: i32 = 900;
const INVALIDATED: i32 = 901;
const UNMATCHED: i32 = 903;
const UNJOINED: i32 = 904;
const ISOLATION: i32 = 905;
const IMPLICIT: i32 = 906;
const CAPTURED_EVENT: i32 = 907;

fn stream() -> usize {
    let mut stream = 0;
    // SAFETY: an out pointer of our own.
    ok(unsafe { cudaStreamCreateWithFlags(&mut stream, 1) });
    stream
}

fn event() -> usize {
    let mut event = 0;
    // SAFETY: an out pointer of our own.
    ok(unsafe { cudaEventCreate(&mut event) });
    event
}

fn malloc(bytes: usize) -> *mut c_void {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: an out pointer of our own.
    ok(unsafe { cudaMalloc(&mut pointer, bytes) });
    pointer
}

fn word(from: *mut c_void) -> u32 {
    let mut word = 0u32;
    // SAFETY: both sides have four bytes.
    ok(unsafe { cudaMemcpy((&raw mut word).cast(), from, 4, 2) });
    word
}

fn begin(stream: usize) {
    // SAFETY: takes no pointers.
    ok(unsafe { cudaStreamBeginCapture(stream, 0) });
}

fn end(stream: usize) -> Result<usize, i32> {
    let mut graph = 1;
    // SAFETY: an out pointer of our own.
    match unsafe { cudaStreamEndCapture(stream, &mut graph) } {
        0 => Ok(graph),
        code => {
            assert_eq!(graph, 0);
            Err(code)
        }
    }
}

fn instantiate(graph: usize) -> usize {
    let mut exec = 0;
    // SAFETY: an out pointer of our own.
    ok(unsafe { cudaGraphInstantiate(&mut exec, graph, 0) });
    exec
}

fn launch(exec: usize, stream: usize) {
    // SAFETY: takes no pointers.
    unsafe {
        ok(cudaGraphLaunch(exec, stream));
        ok(cudaStreamSynchronize(stream));
    }
}

const ONE: Dim3 = Dim3 { x: 1, y: 1, z: 1 };

fn stub(code: TestKernel) -> *const c_void {
    std::ptr::from_ref(&STUBS[code as usize]).cast()
}

/// c = a + b, for one number.
fn add_on(stream: usize, [a, b, c]: [*mut c_void; 3]) -> i32 {
    let values = [a as u64, b as u64, c as u64, 1];
    let mut arguments = values
        .each_ref()
        .map(|value| std::ptr::from_ref(value).cast_mut().cast());
    // SAFETY: the kernel takes four 64-bit values.
    unsafe { cudaLaunchKernel(stub(TestKernel::Add), ONE, ONE, arguments.as_mut_ptr(), 0, stream) }
}

static SEEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

unsafe extern "C" fn note(number: *mut c_void) {
    SEEN.lock().unwrap().push(number as usize);
}

#[test]
fn what_was_captured_is_done_at_each_launch_and_not_before() {
    in_child(
        "what_was_captured_is_done_at_each_launch_and_not_before",
        DEVICES,
        || {
            register();
            let (stream, a, mut pinned) = (stream(), malloc(256), std::ptr::null_mut());
            // SAFETY: buffers of our own, large enough.
            unsafe {
                let b = a.byte_add(64);
                ok(cudaMallocHost(&mut pinned, 4));
                ok(cudaMemset(a, 0, 256));
                begin(stream);
                ok(cudaMemcpyAsync(a, pinned, 4, 1, stream));
                ok(add_on(stream, [a, b, b]));
                ok(cudaLaunchHostFunc(stream, Some(note), 7 as *mut c_void));
                let graph = end(stream).unwrap();
                assert_eq!(word(b), 0, "done while captured");
                assert!(SEEN.lock().unwrap().is_empty());
                let exec = instantiate(graph);
                // An executable graph needs its graph no more.
                ok(cudaGraphDestroy(graph));
                assert_eq!(cudaGraphDestroy(graph), INVALID_VALUE);
                for (value, sum) in [(2, 2), (3, 5)] {
                    pinned.cast::<u32>().write_volatile(value);
                    launch(exec, stream);
                    assert_eq!(word(b), sum);
                }
                assert_eq!(*SEEN.lock().unwrap(), [7, 7]);
                ok(cudaGraphExecDestroy(exec));
                assert_eq!(cudaGraphLaunch(exec, stream), INVALID_VALUE);
            }
        },
    );
}

#[test]
fn streams_join_a_capture_through_events() {
    in_child("streams_join_a_capture_through_events", DEVICES, || {
        let (one, two, fork, join) = (stream(), stream(), event(), event());
        let a = malloc(256);
        // SAFETY: a buffer of our own; out pointers too.
        unsafe {
            begin(one);
            ok(cudaMemsetAsync(a, 1, 4, one));
            ok(cudaEventRecord(fork, one));
            ok(cudaStreamWaitEvent(two, fork, 0));
            let mut status = 0;
            ok(cudaStreamIsCapturing(two, &mut status));
            assert_eq!(status, 1);
            ok(cudaMemsetAsync(a.byte_add(4), 2, 4, two));
            ok(cudaMemsetAsync(a.byte_add(8), 3, 4, one));
            assert_eq!(cudaEventQuery(fork), CAPTURED_EVENT);
            // Asking for a captured event ended it.
            assert_eq!(end(one), Err(INVALIDATED));
            ok(cudaStreamIsCapturing(two, &mut status));
            assert_eq!(status, 0);

            begin(one);
            ok(cudaMemsetAsync(a, 1, 4, one));
            ok(cudaEventRecord(fork, one));
            ok(cudaStreamWaitEvent(two, fork, 0));
            ok(cudaMemsetAsync(a.byte_add(4), 2, 4, two));
            assert_eq!(end(two), Err(UNMATCHED));
            assert_eq!(end(one), Err(INVALIDATED));

            begin(one);
            ok(cudaMemsetAsync(a, 1, 4, one));
            ok(cudaEventRecord(fork, one));
            ok(cudaStreamWaitEvent(two, fork, 0));
            ok(cudaMemsetAsync(a.byte_add(4), 2, 4, two));
            assert_eq!(end(one), Err(UNJOINED));

            begin(one);
            ok(cudaMemsetAsync(a, 1, 4, one));
            ok(cudaEventRecord(fork, one));
            ok(cudaStreamWaitEvent(two, fork, 0));
            ok(cudaMemsetAsync(a.byte_add(4), 2, 4, two));
            ok(cudaMemsetAsync(a.byte_add(8), 3, 4, one));
            ok(cudaEventRecord(join, two));
            ok(cudaStreamWaitEvent(one, join, 0));
            ok(cudaMemsetAsync(a.byte_add(12), 4, 4, one));
            let graph = end(one).unwrap();
            let (mut from, mut to, mut count) = ([0; 4], [0; 4], 0);
            let none = std::ptr::null_mut();
            ok(cudaGraphGetEdges(graph, none, none, none.cast(), &mut count));
            assert_eq!(count, 4);
            ok(cudaGraphGetEdges(
                graph,
                from.as_mut_ptr(),
                to.as_mut_ptr(),
                none.cast(),
                &mut count,
            ));
            // A fork into two branches, and a join, which came to know its own stream's first.
            assert_eq!((from[0], from[2], from[3]), (from[1], to[1], to[0]));
            assert_eq!(to[2], to[3]);
            launch(instantiate(graph), two);
            let words = [0, 4, 8, 12].map(|at| word(a.byte_add(at)) & 0xff);
            assert_eq!(words, [1, 2, 3, 4]);
        }
    });
}

#[test]
fn what_would_wait_is_refused_while_streams_capture() {
    in_child(
        "what_would_wait_is_refused_while_streams_capture",
        DEVICES,
        || {
            let (stream, other, outside, a) = (stream(), stream(), event(), malloc(256));
            let mut pointer = std::ptr::null_mut();
            // SAFETY: a buffer of our own; out pointers too.
            unsafe {
                assert_eq!(cudaStreamBeginCapture(0, 0), UNSUPPORTED);
                assert_eq!(cudaStreamBeginCapture(stream, 3), INVALID_VALUE);
                assert_eq!(end(stream), Err(ILLEGAL_STATE));
                begin(stream);
                assert_eq!(cudaStreamBeginCapture(stream, 0), ILLEGAL_STATE);
                end(stream).unwrap();
                let refused: [&dyn Fn() -> i32; 5] = [
                    &|| cudaStreamSynchronize(stream),
                    &|| cudaStreamQuery(stream),
                    &|| cudaDeviceSynchronize(),
                    &|| cudaFree(a),
                    &|| cudaMalloc(&raw mut *Box::leak(Box::new(std::ptr::null_mut())), 4),
                ];
                for (at, call) in refused.iter().enumerate() {
                    begin(stream);
                    assert_eq!(call(), UNSUPPORTED, "{at}");
                    assert_eq!(cudaMemsetAsync(a, 1, 4, stream), INVALIDATED);
                    assert_eq!(end(stream), Err(INVALIDATED));
                }
                // A relaxed capture forbids nothing to other calls.
                ok(cudaStreamBeginCapture(stream, 2));
                ok(cudaMalloc(&mut pointer, 4));
                ok(cudaStreamSynchronize(other));
                end(stream).unwrap();

                ok(cudaEventRecord(outside, other));
                begin(stream);
                assert_eq!(cudaStreamWaitEvent(stream, outside, 0), ISOLATION);
                assert_eq!(end(stream), Err(INVALIDATED));

                let mut blocking = 0;
                ok(cudaStreamCreate(&mut blocking));
                begin(blocking);
                assert_eq!(cudaMemsetAsync(a, 1, 4, 0), IMPLICIT);
                assert_eq!(end(blocking), Err(INVALIDATED));
                ok(cudaMemsetAsync(a, 1, 4, 0));
            }
        },
    );
}

#[test]
fn graphs_are_made_node_by_node() {
    in_child("graphs_are_made_node_by_node", DEVICES, || {
        register();
        let (a, stream) = (malloc(256), stream());
        // SAFETY: buffers of our own; out pointers too.
        unsafe {
            let b = a.byte_add(64);
            let (mut graph, mut set, mut copy, mut kernel, mut host) = (0, 0, 0, 0, 0);
            ok(cudaGraphCreate(&mut graph, 0));
            assert_eq!(cudaGraphCreate(&mut graph, 1), INVALID_VALUE);
            let none = std::ptr::null();
            let fill = MemsetParams {
                dst: a,
                pitch: 0,
                value: 1,
                element_size: 4,
                width: 1,
                height: 1,
            };
            ok(cudaGraphAddMemsetNode(&mut set, graph, none, 0, &fill));
            ok(cudaGraphAddMemcpyNode1D(&mut copy, graph, &set, 1, b, a, 4, 3));
            let values = [a as u64, b as u64, a as u64, 1];
            let mut arguments = values
                .each_ref()
                .map(|value| std::ptr::from_ref(value).cast_mut().cast());
            let mut parameters = KernelNodeParams {
                func: stub(TestKernel::Add).cast_mut(),
                grid: ONE,
                block: ONE,
                shared_mem_bytes: 0,
                kernel_params: arguments.as_mut_ptr(),
                extra: std::ptr::null_mut(),
            };
            ok(cudaGraphAddKernelNode(
                &mut kernel,
                graph,
                [set, copy].as_ptr(),
                2,
                &parameters,
            ));
            let call = HostNodeParams {
                func: Some(note),
                user_data: 3 as *mut c_void,
            };
            ok(cudaGraphAddHostNode(&mut host, graph, &kernel, 1, &call));
            assert_eq!(
                cudaGraphAddEmptyNode(&mut host, graph, [set, set].as_ptr(), 2),
                INVALID_VALUE
            );
            assert_eq!(
                cudaGraphAddDependencies(graph, &host, &set, none.cast(), 1),
                INVALID_VALUE
            );
            let (mut kind, mut count) = (0, 0);
            ok(cudaGraphNodeGetType(copy, &mut kind));
            ok(cudaGraphGetNodes(graph, std::ptr::null_mut(), &mut count));
            assert_eq!((kind, count), (1, 4));

            let exec = instantiate(graph);
            launch(exec, stream);
            assert_eq!(word(a), 2);
            assert_eq!(*SEEN.lock().unwrap(), [3]);

            // Only this executable graph: another value, and no copy, so that b stays 1.
            let other = MemsetParams { value: 2, ..fill };
            ok(cudaGraphExecMemsetNodeSetParams(exec, set, &other));
            ok(cudaGraphNodeSetEnabled(exec, copy, 0));
            assert_eq!(cudaGraphNodeSetEnabled(exec, host, 0), INVALID_VALUE);
            launch(exec, stream);
            assert_eq!(word(a), 3);
            assert_eq!(cudaGraphExecHostNodeSetParams(exec, set, &call), INVALID_VALUE);

            // The graph as it was, with other arguments, put into the executable one.
            let swapped = [b as u64, b as u64, a as u64, 1];
            let mut arguments = swapped
                .each_ref()
                .map(|value| std::ptr::from_ref(value).cast_mut().cast());
            parameters.kernel_params = arguments.as_mut_ptr();
            ok(cudaGraphKernelNodeSetParams(kernel, &parameters));
            let mut info = GraphExecUpdateResultInfo {
                result: 9,
                error_node: 9 as *mut c_void,
                error_from_node: 9 as *mut c_void,
            };
            ok(cudaGraphExecUpdate(exec, graph, &mut info));
            assert_eq!(info.result, 0);
            launch(exec, stream);
            assert_eq!(word(a), 2);
            ok(cudaGraphDestroyNode(host));
            assert_eq!(cudaGraphExecUpdate(exec, graph, &mut info), 910);
            assert_eq!(info.result, 2);
        }
    });
}

#[test]
fn graphs_hold_graphs_events_and_memory() {
    in_child("graphs_hold_graphs_events_and_memory", DEVICES, || {
        let (a, one, mark) = (malloc(256), stream(), event());
        let free = || {
            let (mut free, mut total) = (0, 0);
            // SAFETY: out pointers of our own.
            ok(unsafe { cudaMemGetInfo(&mut free, &mut total) });
            free
        };
        // SAFETY: buffers of our own; out pointers too.
        unsafe {
            let before = free();
            let (mut graph, mut child, mut node, mut last, mut memory) = (0, 0, 0, 0, std::ptr::null_mut());
            begin(one);
            ok(cudaMallocAsync(&mut memory, 4 * MIB, one));
            ok(cudaMemsetAsync(memory, 5, 4, one));
            ok(cudaMemcpyAsync(a, memory, 4, 3, one));
            ok(cudaFreeAsync(memory, one));
            child = end(one).unwrap().max(child);
            ok(cudaGraphCreate(&mut graph, 0));
            ok(cudaGraphAddChildGraphNode(
                &mut node,
                graph,
                std::ptr::null(),
                0,
                child,
            ));
            ok(cudaGraphAddEventRecordNode(&mut last, graph, &node, 1, mark));
            ok(cudaGraphDestroy(child));
            let exec = instantiate(graph);
            for _ in 0..3 {
                ok(cudaMemset(a, 0, 4));
                launch(exec, one);
                assert_eq!(word(a), 0x0505_0505);
            }
            ok(cudaEventQuery(mark));
            assert!(free() < before);
            ok(cudaGraphDestroy(graph));
            ok(cudaGraphExecDestroy(exec));
            assert_eq!(free(), before, "the graph's memory stays");

            // A graph launched into a capture becomes part of it.
            ok(cudaGraphCreate(&mut graph, 0));
            let fill = MemsetParams {
                dst: a,
                pitch: 0,
                value: 9,
                element_size: 1,
                width: 4,
                height: 1,
            };
            ok(cudaGraphAddMemsetNode(
                &mut node,
                graph,
                std::ptr::null(),
                0,
                &fill,
            ));
            let inner = instantiate(graph);
            begin(one);
            ok(cudaGraphLaunch(inner, one));
            ok(cudaMemcpyAsync(a.byte_add(4), a, 4, 3, one));
            launch(instantiate(end(one).unwrap()), one);
            assert_eq!(word(a.byte_add(4)), 0x0909_0909);
        }
    });
}
