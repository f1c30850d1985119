//! Streams, events and device time.

mod common;
#[path = "kernels/device.rs"]
mod device;

use std::ffi::c_void;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::{MIB, StateFile, command, in_child, in_child_with, is_child, ok};
use device::{STUBS, TestKernel, register};
use mgb_abi::launch::Dim3;
use softgpu::cudart::copy::{cudaMemcpy, cudaMemcpyAsync};
use softgpu::cudart::device::cudaDeviceSynchronize;
use softgpu::cudart::event::*;
use softgpu::cudart::host::cudaMallocHost;
use softgpu::cudart::launch::cudaLaunchKernel;
use softgpu::cudart::memory::cudaMalloc;
use softgpu::cudart::set::cudaMemsetAsync;
use softgpu::cudart::stream::*;

const DEVICES: &str = "1x64MiB";
const NOT_READY: i32 = 600;

fn stream(flags: u32) -> usize {
    let mut stream = 0;
    // SAFETY: an out pointer of our own.
    ok(unsafe { cudaStreamCreateWithFlags(&mut stream, flags) });
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

fn synchronize() {
    // SAFETY: takes no pointers.
    ok(unsafe { cudaDeviceSynchronize() });
}

/// Launches a kernel that does nothing but claim to have executed `operations` in each thread.
fn pretend(stream: usize, blocks: u32, operations: u64) {
    let one = Dim3 { x: 64, y: 1, z: 1 };
    let mut arguments = [std::ptr::from_ref(&operations).cast_mut().cast::<c_void>()];
    let stub = std::ptr::from_ref(&STUBS[TestKernel::Pretend as usize]).cast();
    let grid = Dim3 {
        x: blocks,
        y: 1,
        z: 1,
    };
    // SAFETY: the kernel takes one 64-bit value.
    ok(unsafe { cudaLaunchKernel(stub, grid, one, arguments.as_mut_ptr(), 0, stream) });
}

/// Operations of a thread that take a device of 1.98 GHz this long at four cycles each.
fn operations(milliseconds: u64) -> u64 {
    milliseconds * 1_980_000 / 4
}

static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());

unsafe extern "C" fn note(number: *mut c_void) {
    ORDER.lock().unwrap().push(number as usize);
}

fn call_back(stream: usize, number: usize) {
    // SAFETY: the function takes any number.
    ok(unsafe { cudaLaunchHostFunc(stream, Some(note), number as *mut c_void) });
}

#[test]
fn work_is_done_in_order_while_the_host_goes_on() {
    in_child("work_is_done_in_order_while_the_host_goes_on", DEVICES, || {
        register();
        let stream = stream(1);
        let begin = Instant::now();
        pretend(stream, 1, operations(400));
        call_back(stream, 1);
        pretend(stream, 1, operations(1));
        call_back(stream, 2);
        assert!(begin.elapsed() < Duration::from_millis(200), "the launch waited");
        // SAFETY: takes no pointers.
        unsafe {
            assert_eq!(cudaStreamQuery(stream), NOT_READY);
            assert!(ORDER.lock().unwrap().is_empty());
            ok(cudaStreamSynchronize(stream));
            ok(cudaStreamQuery(stream));
        }
        assert!(
            begin.elapsed() >= Duration::from_millis(401),
            "done before its modelled end"
        );
        assert_eq!(*ORDER.lock().unwrap(), [1, 2]);
    });
}

#[test]
fn the_default_stream_waits_for_blocking_streams_and_they_for_it() {
    in_child(
        "the_default_stream_waits_for_blocking_streams_and_they_for_it",
        DEVICES,
        || {
            register();
            let (blocking, free) = (stream(0), stream(1));
            pretend(blocking, 1, operations(60));
            call_back(blocking, 1);
            call_back(0, 2);
            pretend(0, 1, operations(60));
            call_back(0, 3);
            call_back(blocking, 4);
            call_back(free, 0);
            synchronize();
            assert_eq!(*ORDER.lock().unwrap(), [0, 1, 2, 3, 4]);
        },
    );
}

#[test]
fn streams_wait_for_events() {
    in_child("streams_wait_for_events", DEVICES, || {
        register();
        let (a, b, event) = (stream(1), stream(1), event());
        pretend(a, 1, operations(60));
        call_back(a, 1);
        // SAFETY: takes no pointers.
        unsafe {
            ok(cudaEventQuery(event));
            ok(cudaEventRecord(event, a));
            assert_eq!(cudaEventQuery(event), NOT_READY);
            ok(cudaStreamWaitEvent(b, event, 0));
        }
        call_back(b, 2);
        // SAFETY: takes no pointers.
        ok(unsafe { cudaStreamSynchronize(b) });
        assert_eq!(*ORDER.lock().unwrap(), [1, 2]);
        // SAFETY: takes no pointers.
        ok(unsafe { cudaEventQuery(event) });
    });
}

#[test]
fn events_tell_device_time() {
    in_child("events_tell_device_time", DEVICES, || {
        register();
        let (start, end, mut time) = (event(), event(), 0.0);
        // SAFETY: out pointers of our own.
        unsafe {
            assert_eq!(cudaEventElapsedTime(&mut time, start, end), 400, "never recorded");
            ok(cudaEventRecord(start, 0));
            pretend(0, 1, operations(40));
            ok(cudaEventRecord(end, 0));
            ok(cudaEventSynchronize(end));
            ok(cudaEventElapsedTime(&mut time, start, end));
        }
        assert!((40.0..400.0).contains(&time), "{time} ms");
    });
}

/// Milliseconds of device time until kernels of this many blocks are done in each of two streams.
fn two_streams(blocks: u32) -> [f32; 2] {
    let streams = [stream(1), stream(1)];
    let (start, ends) = (event(), [event(), event()]);
    // SAFETY: takes no pointers.
    ok(unsafe { cudaEventRecord(start, streams[0]) });
    for (stream, end) in streams.into_iter().zip(ends) {
        pretend(stream, blocks, operations(200));
        // SAFETY: takes no pointers.
        ok(unsafe { cudaEventRecord(end, stream) });
    }
    synchronize();
    ends.map(|end| {
        let mut time = 0.0;
        // SAFETY: an out pointer of our own.
        ok(unsafe { cudaEventElapsedTime(&mut time, start, end) });
        time
    })
}

#[test]
fn kernels_overlap_while_their_warps_fit() {
    in_child("kernels_overlap_while_their_warps_fit", DEVICES, || {
        register();
        let begin = Instant::now();
        let narrow = two_streams(1);
        assert!(
            narrow.iter().all(|time| (200.0..400.0).contains(time)),
            "{narrow:?}"
        );
        // 64 threads a block, at most 32 blocks on each of 132 multiprocessors: each fills the device.
        let wide = two_streams(132 * 32);
        assert!(wide[1].max(wide[0]) >= 400.0, "{wide:?}");
        assert!(
            begin.elapsed() >= Duration::from_millis(600),
            "{:?}",
            begin.elapsed()
        );
    });
}

#[test]
fn processes_share_the_copy_engine() {
    const NAME: &str = "processes_share_the_copy_engine";
    // 8 MiB pageable: 0.88 ms, a hundred times slower.
    let devices = "1x64MiB:slow=100";
    if is_child(NAME) {
        let (device, host) = (malloc(8 * MIB), vec![1u8; 8 * MIB]);
        // SAFETY: both sides have this size.
        ok(unsafe { cudaMemcpy(device, host.as_ptr().cast(), 8 * MIB, 1) });
        return;
    }
    let state = StateFile::new();
    let begin = Instant::now();
    let spawn = || {
        command(NAME, devices, &state)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut children = [spawn(), spawn(), spawn()];
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    assert!(
        begin.elapsed() >= Duration::from_millis(3 * 88),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn time_can_be_switched_off() {
    in_child_with(
        "time_can_be_switched_off",
        DEVICES,
        &[("SOFTGPU_TIME", "off")],
        || {
            register();
            let begin = Instant::now();
            pretend(0, 1, operations(10_000));
            synchronize();
            assert!(begin.elapsed() < Duration::from_secs(5));
        },
    );
}

#[test]
fn host_bytes_are_consumed_when_cuda_says_so() {
    in_child("host_bytes_are_consumed_when_cuda_says_so", DEVICES, || {
        register();
        let (stream, device) = (stream(1), malloc(MIB));
        let mut pinned = std::ptr::null_mut();
        let mut out = [0u8; 4];
        // SAFETY: buffers of our own, large enough for what is copied.
        unsafe {
            ok(cudaMallocHost(&mut pinned, MIB));
            let pinned = pinned.cast::<u8>();
            pinned.write_bytes(1, MIB);
            pretend(stream, 1, operations(50));
            let mut pageable = [1u8, 1];
            ok(cudaMemcpyAsync(device, pageable.as_ptr().cast(), 2, 1, stream));
            pageable[0] = 9;
            std::hint::black_box(&pageable);
            ok(cudaMemcpyAsync(device.byte_add(2), pinned.cast(), 2, 1, stream));
            // Pinned memory is read in the copy's turn.
            pinned.write_volatile(7);
            ok(cudaStreamSynchronize(stream));
            ok(cudaMemcpy(out.as_mut_ptr().cast(), device, 4, 2));
        }
        assert_eq!(out, [1, 1, 7, 1]);
    });
}

#[test]
fn a_program_can_end_with_work_queued() {
    let begin = Instant::now();
    in_child("a_program_can_end_with_work_queued", DEVICES, || {
        register();
        let (stream, device) = (stream(1), malloc(MIB));
        for _ in 0..100 {
            pretend(stream, 64, operations(1000));
            // SAFETY: within the allocation.
            ok(unsafe { cudaMemsetAsync(device, 1, MIB, stream) });
        }
    });
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn many_short_kernels_do_not_cost_a_sleep_each() {
    in_child("many_short_kernels_do_not_cost_a_sleep_each", DEVICES, || {
        register();
        let begin = Instant::now();
        for _ in 0..2000 {
            pretend(0, 1, 100);
        }
        synchronize();
        let each = begin.elapsed() / 2000;
        assert!(each < Duration::from_millis(1), "{each:?} each");
    });
}
