//! What outlives what: memory its pool or graph, a context the work in it.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "calls of a C API with valid arguments"
)]

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{MIB, in_child, ok};
use mgb_abi::graph::MemAllocNodeParams;
use mgb_abi::location::MemLocation;
use mgb_abi::pool::MemPoolProps;
use softgpu::cudart::stream::cudaLaunchHostFunc;
use softgpu::driver::context::*;
use softgpu::driver::copy::*;
use softgpu::driver::device::cuInit;
use softgpu::driver::graph::*;
use softgpu::driver::ipc::*;
use softgpu::driver::launch::cuGraphLaunch;

use softgpu::driver::memory::*;
use softgpu::driver::pool::*;
use softgpu::driver::set::*;
use softgpu::driver::stream::cuStreamSynchronize;

/// Retains the first device's context.
fn retain() {
    let mut context = 0;
    unsafe {
        ok(cuInit(0));
        ok(cuDevicePrimaryCtxRetain(&mut context, 0));
        ok(cuCtxSetCurrent(context));
    }
}

fn is_active() -> bool {
    let (mut flags, mut active) = (0, 0);
    ok(unsafe { cuDevicePrimaryCtxGetState(0, &mut flags, &mut active) });
    active != 0
}

#[test]
fn memory_of_a_host_pool_outlives_it() {
    in_child("memory_of_a_host_pool_outlives_it", "1x64MiB", || unsafe {
        retain();
        let mut props = MemPoolProps::of_device(0);
        props.location = MemLocation::host();
        let (mut pool, mut address) = (0, 0);
        ok(cuMemPoolCreate(&mut pool, &props));
        ok(cuMemAllocFromPoolAsync(&mut address, 1000, pool, 0));
        ok(cuMemPoolDestroy(pool));
        ok(cuMemFreeAsync(address, 0));
        ok(cuStreamSynchronize(0));
        // A free in its order would break the context where it failed.
        ok(cuCtxSynchronize());
        assert_eq!(cuMemFreeAsync(address, 0), 1, "it is free");
    });
}

/// A graph that allocates a MiB and leaves it, its executable form, and the address.
unsafe fn with_memory() -> (usize, usize, usize) {
    let (mut graph, mut node, mut exec) = (0, 0, 0);
    let mut params = MemAllocNodeParams {
        pool_props: MemPoolProps::of_device(0),
        access_descs: std::ptr::null(),
        access_desc_count: 0,
        byte_size: MIB,
        dptr: null_mut(),
    };
    unsafe {
        ok(cuGraphCreate(&mut graph, 0));
        ok(cuGraphAddMemAllocNode(
            &mut node,
            graph,
            std::ptr::null(),
            0,
            &mut params,
        ));
        ok(cuGraphInstantiateWithFlags(&mut exec, graph, 0));
    }
    (graph, exec, params.dptr as usize)
}

#[test]
fn memory_that_a_graph_has_left_outlives_it() {
    in_child("memory_that_a_graph_has_left_outlives_it", "1x64MiB", || unsafe {
        retain();
        let (mut free, mut total) = (0, 0);
        ok(cuMemGetInfo_v2(&mut free, &mut total));
        let before = free;
        let (graph, exec, address) = with_memory();
        ok(cuGraphLaunch(exec, 0));
        ok(cuMemsetD8_v2(address, 7, MIB));
        ok(cuGraphExecDestroy(exec));
        ok(cuGraphDestroy(graph));
        let mut byte = 0u8;
        ok(cuMemcpyDtoH_v2((&raw mut byte).cast::<c_void>(), address, 1));
        assert_eq!(byte, 7);
        ok(cuMemFree_v2(address));
        ok(cuMemGetInfo_v2(&mut free, &mut total));
        assert_eq!(free, before, "nothing is left");
        assert_eq!(cuMemFree_v2(address), 1, "it is free");
    });
}

/// A free in the order of a stream counts when the stream comes to it: not after a launch that came later.
#[test]
fn memory_of_a_launch_after_a_free_outlives_its_graph() {
    in_child(
        "memory_of_a_launch_after_a_free_outlives_its_graph",
        "1x64MiB",
        || unsafe {
            retain();
            let (graph, exec, address) = with_memory();
            ok(cuGraphLaunch(exec, 0));
            let gate = AtomicBool::new(false);
            ok(cudaLaunchHostFunc(
                0,
                Some(wait_for),
                (&raw const gate).cast_mut().cast(),
            ));
            ok(cuMemFreeAsync(address, 0));
            ok(cuGraphLaunch(exec, 0));
            gate.store(true, Ordering::Release);
            ok(cuMemsetD8_v2(address, 7, MIB));
            ok(cuGraphExecDestroy(exec));
            ok(cuGraphDestroy(graph));
            let mut byte = 0u8;
            ok(cuMemcpyDtoH_v2((&raw mut byte).cast::<c_void>(), address, 1));
            assert_eq!(byte, 7);
            ok(cuMemFree_v2(address));
        },
    );
}

/// Keeps a stream until the flag is set.
unsafe extern "C" fn wait_for(flag: *mut c_void) {
    // SAFETY: the test passes a flag that outlives the stream's work.
    let flag = unsafe { &*flag.cast::<AtomicBool>() };
    while !flag.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// Also where a pool was made, or allocated from, in it.
#[test]
fn the_last_release_ends_the_context_after_its_work() {
    in_child(
        "the_last_release_ends_the_context_after_its_work",
        "1x64MiB",
        || unsafe {
            for _ in 0..20 {
                retain();
                let (mut pool, mut address) = (0, 0);
                ok(cuMemPoolCreate(&mut pool, &MemPoolProps::of_device(0)));
                ok(cuMemAllocFromPoolAsync(&mut address, 8 * MIB, pool, 0));
                ok(cuMemsetD8Async(address, 1, 8 * MIB, 0));
                ok(cuMemFreeAsync(address, 0));
                ok(cuDevicePrimaryCtxRelease_v2(0));
                assert!(!is_active());
            }
            retain();
            ok(cuCtxSynchronize());
        },
    );
}

/// A handle is to a whole allocation, wherever it lies.
#[test]
fn small_memory_is_handed_over_whole() {
    in_child("small_memory_is_handed_over_whole", "1x64MiB", || unsafe {
        retain();
        // Two thirds of a chunk's half each: what does not fit into one chunk goes into the next.
        for _ in 0..12 {
            let (mut address, bytes) = (0, 700 << 10);
            ok(cuMemAlloc_v2(&mut address, bytes));
            assert_eq!(address >> 21, (address + bytes - 1) >> 21, "in one chunk");
            let mut handle = std::mem::zeroed();
            ok(cuIpcGetMemHandle(&mut handle, address));
        }
    });
}
