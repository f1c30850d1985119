//! Modelled device time, as a program sees it through events. Only modelled times are looked at, never the
//! host's.

mod common;
#[path = "kernels/device.rs"]
mod device;

use std::ffi::c_void;

use common::{MIB, in_child_with};
use device::{STUBS, TestKernel, register};
use mgb_abi::launch::Dim3;
use softgpu::cudart::copy::cudaMemcpyAsync;
use softgpu::cudart::device::{cudaDeviceSynchronize, cudaGetDeviceCount, cudaSetDevice};
use softgpu::cudart::event::{cudaEventCreate, cudaEventElapsedTime, cudaEventRecord, cudaStreamWaitEvent};
use softgpu::cudart::host::cudaMallocHost;
use softgpu::cudart::launch::cudaLaunchKernel;
use softgpu::cudart::memory::cudaMalloc;
use softgpu::cudart::stream::cudaStreamCreate;

fn launch(operations: u64, stream: usize) {
    let one = Dim3 { x: 1, y: 1, z: 1 };
    let mut arguments = [std::ptr::from_ref(&operations).cast_mut().cast()];
    let stub = std::ptr::from_ref(&STUBS[TestKernel::Pretend as usize]).cast();
    // SAFETY: the kernel takes one 64-bit value.
    let launched = unsafe { cudaLaunchKernel(stub, one, one, arguments.as_mut_ptr(), 0, stream) };
    assert_eq!(launched, 0);
}

fn record(stream: usize) -> usize {
    let mut event = 0;
    // SAFETY: an out pointer of our own.
    unsafe {
        assert_eq!(cudaEventCreate(&mut event), 0);
        assert_eq!(cudaEventRecord(event, stream), 0);
    }
    event
}

fn stream() -> usize {
    let mut stream = 0;
    // SAFETY: an out pointer of our own.
    assert_eq!(unsafe { cudaStreamCreate(&mut stream) }, 0);
    stream
}

/// Two streams that wait for each other, kernels, copies both ways; prints every event's time.
fn program() {
    register();
    let (a, b) = (stream(), stream());
    let (mut host, mut memory) = (std::ptr::null_mut::<c_void>(), std::ptr::null_mut::<c_void>());
    // SAFETY: out pointers of our own.
    unsafe {
        assert_eq!(cudaMallocHost(&mut host, 4 * MIB), 0);
        assert_eq!(cudaMalloc(&mut memory, 4 * MIB), 0);
    }
    let mut events = vec![record(a)];
    for round in 1..4 {
        // SAFETY: buffers of this size.
        unsafe {
            assert_eq!(cudaMemcpyAsync(memory, host, round * MIB, 1, a), 0);
            launch(100_000 * round as u64, a);
            events.push(record(a));
            assert_eq!(cudaStreamWaitEvent(b, events[events.len() - 1], 0), 0);
            launch(50_000, b);
            assert_eq!(cudaMemcpyAsync(host, memory, MIB, 2, b), 0);
            events.push(record(b));
            launch(70_000, a);
            events.push(record(a));
            assert_eq!(cudaDeviceSynchronize(), 0);
        }
    }
    for event in &events[1..] {
        let mut milliseconds = 0.0;
        // SAFETY: an out pointer of our own.
        let told = unsafe { cudaEventElapsedTime(&mut milliseconds, events[0], *event) };
        assert_eq!(told, 0);
        // The test harness has begun a line.
        println!("\nat {milliseconds:.6}");
    }
}

fn times(text: &str) -> Vec<f64> {
    text.lines()
        .filter_map(|line| line.strip_prefix("at "))
        .map(|number| number.parse().unwrap())
        .collect()
}

#[test]
fn a_seed_gives_the_same_times_at_every_run() {
    const NAME: &str = "a_seed_gives_the_same_times_at_every_run";
    let run = |devices, seed| times(&in_child_with(NAME, devices, &[("SOFTGPU_SEED", seed)], program));
    let first = run("1x64MiB", "1");
    assert_eq!(first.len(), 9);
    assert!(first.iter().all(|&at| at > 0.0));
    for _ in 0..4 {
        assert_eq!(run("1x64MiB", "1"), first);
    }
    assert_ne!(run("1x64MiB", "2"), first);
    // Slower links, clock and memory.
    let older = run("P100:64MiB", "1");
    assert!(older.iter().zip(&first).all(|(older, newer)| older > newer));
}

/// The time of one kernel and one copy on a device.
fn one_of_each() {
    register();
    let mut memory = std::ptr::null_mut();
    let bytes = vec![0u8; 8 * MIB];
    for device in 0..2 {
        // SAFETY: an out pointer of our own, and buffers of this size.
        unsafe {
            assert_eq!(cudaSetDevice(device), 0);
            assert_eq!(cudaMalloc(&mut memory, 8 * MIB), 0);
            let events = [record(0), {
                launch(1_000_000, 0);
                assert_eq!(cudaMemcpyAsync(memory, bytes.as_ptr().cast(), 8 * MIB, 1, 0), 0);
                record(0)
            }];
            assert_eq!(cudaDeviceSynchronize(), 0);
            let mut milliseconds = 0.0;
            assert_eq!(cudaEventElapsedTime(&mut milliseconds, events[0], events[1]), 0);
            // The test harness has begun a line.
            println!("\nat {milliseconds:.6}");
        }
    }
}

#[test]
fn a_slow_device_takes_its_factor() {
    const NAME: &str = "a_slow_device_takes_its_factor";
    let run = |fail| {
        let environment = [("SOFTGPU_SEED", "1"), ("SOFTGPU_FAIL", fail)];
        times(&in_child_with(NAME, "2x64MiB", &environment, one_of_each))
    };
    let (plain, slow) = (run(""), run("slow:1@factor=4"));
    assert_eq!(plain[0], slow[0]);
    let factor = slow[1] / plain[1];
    assert!((3.9..=4.0).contains(&factor), "{factor}");
}

#[test]
fn what_cannot_be_read_is_refused() {
    const NAME: &str = "what_cannot_be_read_is_refused";
    let text = in_child_with(NAME, "1x64MiB", &[("SOFTGPU_MPS", "perhaps")], || {
        let mut count = 9;
        // SAFETY: an out pointer of our own.
        assert_eq!(unsafe { cudaGetDeviceCount(&mut count) }, 3);
    });
    assert!(
        text.contains("SOFTGPU_MPS=perhaps: it must be on or off"),
        "{text}"
    );
}
