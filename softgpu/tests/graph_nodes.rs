//! Graph nodes by the structure for all kinds, their attributes, and what graphs keep alive.

mod common;
#[path = "kernels/device.rs"]
mod device;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use common::{MIB, in_child, ok};
use device::{STUBS, TestKernel, register};
use mgb_abi::graph::{GraphNodeParams, KernelNodeParams, MemAllocNodeParams, MemsetParams};
use mgb_abi::launch::{Dim3, LaunchAttributeValue};
use mgb_abi::pool::MemPoolProps;
use softgpu::cudart::copy::cudaMemcpy;
use softgpu::cudart::device::cudaDeviceSynchronize;
use softgpu::cudart::graph::*;
use softgpu::cudart::graph_attributes::*;
use softgpu::cudart::graph_exec::*;
use softgpu::cudart::graph_params::*;
use softgpu::cudart::memory::cudaMalloc;
use softgpu::cudart::user_objects::*;

const DEVICES: &str = "1x64MiB";

fn graph() -> usize {
    let mut graph = 0;
    // SAFETY: an out pointer of our own.
    ok(unsafe { cudaGraphCreate(&mut graph, 0) });
    graph
}

fn run(graph: usize) -> usize {
    let mut exec = 0;
    // SAFETY: an out pointer of our own.
    unsafe {
        ok(cudaGraphInstantiate(&mut exec, graph, 0));
        ok(cudaGraphLaunch(exec, 0));
        ok(cudaDeviceSynchronize());
    }
    exec
}

/// The structure for a kind, whose part it begins with.
fn parameters<T>(kind: u32, body: T) -> GraphNodeParams {
    let mut parameters = GraphNodeParams {
        kind,
        reserved0: [0; 3],
        body: [0; 29],
        reserved2: 0,
    };
    assert!(size_of::<T>() <= size_of_val(&parameters.body));
    // SAFETY: there is room, as was checked.
    unsafe { parameters.body.as_mut_ptr().cast::<T>().write(body) };
    parameters
}

fn add(graph: usize, after: &[usize], parameters: &mut GraphNodeParams) -> usize {
    let mut node = 0;
    // SAFETY: an out pointer and an array of our own.
    ok(unsafe {
        cudaGraphAddNode(
            &mut node,
            graph,
            after.as_ptr(),
            std::ptr::null(),
            after.len(),
            parameters,
        )
    });
    node
}

fn set_of(to: *mut c_void, value: u32) -> GraphNodeParams {
    let memset = MemsetParams {
        dst: to,
        pitch: 0,
        value,
        element_size: 4,
        width: 4,
        height: 1,
    };
    parameters(2, memset)
}

/// A kernel that stores its argument's target.
fn kernel_of(arguments: &mut [*mut c_void; 1]) -> GraphNodeParams {
    let one = Dim3 { x: 1, y: 1, z: 1 };
    let kernel = KernelNodeParams {
        func: std::ptr::from_ref(&STUBS[TestKernel::Pretend as usize])
            .cast_mut()
            .cast(),
        grid: one,
        block: one,
        shared_mem_bytes: 0,
        kernel_params: arguments.as_mut_ptr(),
        extra: std::ptr::null_mut(),
    };
    parameters(0, kernel)
}

fn words(from: *const c_void) -> [u32; 4] {
    let mut words = [0; 4];
    // SAFETY: a buffer of this size.
    ok(unsafe { cudaMemcpy(words.as_mut_ptr().cast(), from, 16, 2) });
    words
}

#[test]
fn nodes_of_any_kind_are_added_and_changed() {
    in_child("nodes_of_any_kind_are_added_and_changed", DEVICES, || {
        let mut memory = std::ptr::null_mut();
        // SAFETY: an out pointer of our own.
        ok(unsafe { cudaMalloc(&mut memory, MIB) });
        let graph = graph();
        let first = add(graph, &[], &mut set_of(memory, 7));
        let empty = add(graph, &[first], &mut parameters(5, ()));
        let exec = run(graph);
        assert_eq!(words(memory), [7; 4]);
        // SAFETY: out pointers and structures of our own.
        unsafe {
            ok(cudaGraphExecNodeSetParams(exec, first, &mut set_of(memory, 8)));
            ok(cudaGraphLaunch(exec, 0));
            assert_eq!(words(memory), [8; 4]);
            ok(cudaGraphNodeSetParams(first, &mut set_of(memory, 9)));
            run(graph);
            assert_eq!(words(memory), [9; 4]);
            // Another kind; what cannot be changed; what is not supported; a reserved word that is not zero.
            assert_eq!(cudaGraphNodeSetParams(first, &mut parameters(6, 0u64)), 400);
            assert_eq!(cudaGraphNodeSetParams(empty, &mut parameters(5, ())), 1);
            let mut node = 0;
            let mut conditional = parameters(13, ());
            assert_eq!(
                cudaGraphAddNode(
                    &mut node,
                    graph,
                    std::ptr::null(),
                    std::ptr::null(),
                    0,
                    &mut conditional
                ),
                801
            );
            let mut reserved = set_of(memory, 1);
            reserved.reserved0[1] = 1;
            assert_eq!(cudaGraphNodeSetParams(first, &mut reserved), 1);
        }
    });
}

#[test]
fn memory_of_a_graph_is_counted() {
    in_child("memory_of_a_graph_is_counted", DEVICES, || {
        let used = || {
            [0, 1].map(|attribute| {
                let mut bytes = 0;
                // SAFETY: an out pointer of our own.
                ok(unsafe { cudaDeviceGetGraphMemAttribute(0, attribute, &mut bytes) });
                bytes
            })
        };
        let graph = graph();
        // SAFETY: only integers and pointers, for which zero is a value.
        let mut allocation: MemAllocNodeParams = unsafe { std::mem::zeroed() };
        allocation.pool_props = MemPoolProps::of_device(0);
        allocation.byte_size = MIB;
        let mut allocation = parameters(10, allocation);
        let node = add(graph, &[], &mut allocation);
        // SAFETY: the structure that was put there.
        let address = unsafe { (*allocation.body.as_ptr().cast::<MemAllocNodeParams>()).dptr };
        assert!(!address.is_null());
        let set = add(graph, &[node], &mut set_of(address, 5));
        add(graph, &[set], &mut parameters(11, address));
        assert_eq!(used(), [0; 2]);
        run(graph);
        // A granule, kept until it is trimmed.
        assert_eq!(used(), [2 * MIB as u64; 2]);
        // SAFETY: a value of our own.
        unsafe {
            assert_eq!(cudaDeviceSetGraphMemAttribute(0, 0, &0), 1);
            ok(cudaDeviceSetGraphMemAttribute(0, 1, &0));
            ok(cudaDeviceGraphMemTrim(0));
        }
        assert_eq!(used(), [0, 2 * MIB as u64]);
    });
}

#[test]
fn attributes_of_a_kernel_stay_with_its_node() {
    in_child("attributes_of_a_kernel_stay_with_its_node", DEVICES, || {
        register();
        let operations = 10u64;
        let mut arguments = [std::ptr::from_ref(&operations).cast_mut().cast::<c_void>()];
        let graph = graph();
        let [first, second] = [(); 2].map(|()| add(graph, &[], &mut kernel_of(&mut arguments)));
        let get = |node, attribute| {
            let mut value = LaunchAttributeValue([9; 16]);
            // SAFETY: an out pointer of our own.
            ok(unsafe { cudaGraphKernelNodeGetAttribute(node, attribute, &mut value) });
            value.0[0]
        };
        assert_eq!([get(first, 2), get(first, 4), get(first, 8)], [0, 1, 0]);
        let mut value = LaunchAttributeValue::default();
        value.0[0] = 1;
        // SAFETY: values and structures of our own.
        unsafe {
            ok(cudaGraphKernelNodeSetAttribute(first, 2, &value));
            ok(cudaGraphNodeSetParams(first, &mut kernel_of(&mut arguments)));
            assert_eq!([get(first, 2), get(second, 2)], [1, 0]);
            ok(cudaGraphKernelNodeCopyAttributes(second, first));
            assert_eq!(get(second, 2), 1);
            assert_eq!(cudaGraphKernelNodeSetAttribute(first, 99, &value), 1);
            value.0[0] = 2;
            value.0[1] = 1;
            value.0[2] = 1;
            assert_eq!(cudaGraphKernelNodeSetAttribute(first, 4, &value), 801);
        }
        run(graph);
    });
}

static DESTROYED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn destroy(data: *mut c_void) {
    assert_eq!(data as usize, 42);
    DESTROYED.fetch_add(1, Relaxed);
}

#[test]
fn a_user_object_lives_as_long_as_somebody_refers_to_it() {
    in_child(
        "a_user_object_lives_as_long_as_somebody_refers_to_it",
        DEVICES,
        || {
            let graph = graph();
            add(graph, &[], &mut parameters(5, ()));
            let mut object = 0;
            // SAFETY: an out pointer of our own; the others take handles.
            unsafe {
                assert_eq!(
                    cudaUserObjectCreate(&mut object, 42 as *mut c_void, Some(destroy), 1, 0),
                    1
                );
                ok(cudaUserObjectCreate(
                    &mut object,
                    42 as *mut c_void,
                    Some(destroy),
                    1,
                    1,
                ));
                ok(cudaUserObjectRetain(object, 2));
                ok(cudaGraphRetainUserObject(graph, object, 1, 0));
                ok(cudaGraphRetainUserObject(graph, object, 1, 1));
                assert_eq!(cudaUserObjectRelease(object, 3), 1);
                ok(cudaUserObjectRelease(object, 2));
                assert_eq!(cudaUserObjectRetain(object, 1), 1);
                ok(cudaGraphReleaseUserObject(graph, object, 1));
                let exec = run(graph);
                ok(cudaGraphDestroy(graph));
                assert_eq!(DESTROYED.load(Relaxed), 0);
                ok(cudaGraphExecDestroy(exec));
            }
            assert_eq!(DESTROYED.load(Relaxed), 1);
        },
    );
}
