//! Failures on demand.

mod common;
#[path = "kernels/device.rs"]
mod device;

use std::time::Duration;

use common::{MIB, in_child_with};
use device::{STUBS, TestKernel, register};
use mgb_abi::launch::Dim3;
use softgpu::cudart::device::{cudaDeviceReset, cudaDeviceSynchronize, cudaGetDeviceCount, cudaSetDevice};
use softgpu::cudart::errors::cudaGetLastError;
use softgpu::cudart::event::cudaEventCreate;
use softgpu::cudart::host::cudaMallocHost;
use softgpu::cudart::launch::cudaLaunchKernel;
use softgpu::cudart::memory::{cudaFree, cudaMalloc, cudaMemGetInfo};
use softgpu::cudart::stream::cudaStreamCreate;
use softgpu::driver::context::{cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRetain};
use softgpu::nvml::device::nvmlDeviceGetHandleByIndex_v2;
use softgpu::nvml::system::nvmlInit_v2;

const DEVICES: &str = "2x64MiB";

fn malloc() -> i32 {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: an out pointer of our own.
    unsafe { cudaMalloc(&mut pointer, MIB) }
}

fn launch() -> i32 {
    launch_with(TestKernel::Pretend, 1)
}

fn launch_with(kernel: TestKernel, argument: u64) -> i32 {
    let one = Dim3 { x: 1, y: 1, z: 1 };
    let mut arguments = [std::ptr::from_ref(&argument).cast_mut().cast()];
    let stub = std::ptr::from_ref(&STUBS[kernel as usize]).cast();
    // SAFETY: the kernel takes one 64-bit value.
    unsafe { cudaLaunchKernel(stub, one, one, arguments.as_mut_ptr(), 0, 0) }
}

fn kernel() -> i32 {
    match launch() {
        // SAFETY: takes no pointers.
        0 => unsafe { cudaDeviceSynchronize() },
        error => error,
    }
}

#[test]
fn memory_runs_out_once() {
    let text = in_child_with(
        "memory_runs_out_once",
        DEVICES,
        &[("SOFTGPU_FAIL", "oom:0@alloc=2")],
        || {
            assert_eq!([malloc(), malloc(), malloc()], [0, 2, 0]);
        },
    );
    assert!(text.contains("no memory for this call"), "{text}");
}

#[test]
fn an_ecc_error_sticks_until_the_context_ends() {
    let fail = [("SOFTGPU_FAIL", "ecc:0@kernel=2")];
    in_child_with(
        "an_ecc_error_sticks_until_the_context_ends",
        DEVICES,
        &fail,
        || {
            register();
            assert_eq!([kernel(), kernel(), malloc()], [0, 214, 214]);
            // SAFETY: takes no pointers to use.
            unsafe {
                assert_eq!(cudaFree(std::ptr::null_mut()), 214);
                assert_eq!(cudaGetLastError(), 214);
                assert_eq!(cudaDeviceReset(), 0);
            }
            assert_eq!([malloc(), kernel()], [0, 0]);
        },
    );
}

/// Or what the call after a launch answers depends on who is faster.
#[test]
fn what_went_wrong_in_a_stream_shows_at_the_first_call_that_waits() {
    let fail = [("SOFTGPU_FAIL", "ecc:0@kernel=1")];
    let name = "what_went_wrong_in_a_stream_shows_at_the_first_call_that_waits";
    in_child_with(name, DEVICES, &fail, || {
        register();
        assert_eq!(launch(), 0);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(cudaGetLastError(), 0);
        // SAFETY: takes no pointers.
        assert_eq!(unsafe { cudaDeviceSynchronize() }, 214);
        // As on an H100: what a call has returned is taken back, and the next one returns it again.
        assert_eq!([cudaGetLastError(), cudaGetLastError()], [214, 0]);
        assert_eq!([malloc(), cudaGetLastError(), cudaGetLastError()], [214, 214, 0]);
    });
}

/// What calls return on the current device, with whatever they need a context for: cudaMalloc,
/// cudaMallocHost, cudaStreamCreate, cudaEventCreate, cudaMemGetInfo, cudaFree, cudaDeviceSynchronize, a
/// launch.
fn calls() -> [i32; 8] {
    let (mut pointer, mut handle) = (std::ptr::null_mut(), 0);
    let (mut free, mut total) = (0, 0);
    // SAFETY: out pointers of our own.
    unsafe {
        [
            cudaMalloc(&mut pointer, 100),
            cudaMallocHost(&mut pointer, 100),
            cudaStreamCreate(&mut handle),
            cudaEventCreate(&mut handle),
            cudaMemGetInfo(&mut free, &mut total),
            cudaFree(std::ptr::null_mut()),
            cudaDeviceSynchronize(),
            launch(),
        ]
    }
}

/// Every answer is one that two H200s gave (driver 580.159, CUDA 13.0, with and without MPS).
#[test]
fn a_fault_of_a_kernel_is_the_process_s_for_good() {
    let name = "a_fault_of_a_kernel_is_the_process_s_for_good";
    in_child_with(name, "3x64MiB", &[], || {
        register();
        // SAFETY: takes no pointers to use.
        unsafe {
            assert_eq!([cudaSetDevice(1), malloc()], [0, 0]);
            assert_eq!([cudaSetDevice(0), malloc()], [0, 0]);
            assert_eq!(launch_with(TestKernel::Store, 0x10), 0);
            assert_eq!(cudaDeviceSynchronize(), 700);
            assert_eq!(calls(), [700; 8]);
            // Its context is there, so the device can be current.
            assert_eq!(cudaSetDevice(1), 0);
            assert_eq!(calls(), [700; 8]);
            // There can be no new one, but the device is current.
            assert_eq!(cudaSetDevice(2), 46);
            assert_eq!(calls(), [46; 8]);
            let mut context = 0;
            assert_eq!(
                [0, 2].map(|device| cuDevicePrimaryCtxRetain(&mut context, device)),
                [0, 700]
            );
            assert_eq!(cuDevicePrimaryCtxRelease_v2(0), 0);
            assert_eq!(cudaSetDevice(0), 0);
            for _ in 0..2 {
                assert_eq!(cudaDeviceReset(), 0);
                assert_eq!(calls(), [46; 8]);
                assert_eq!(cudaSetDevice(0), 46);
            }
            assert_eq!([cudaSetDevice(1), malloc()], [0, 700]);
            let mut count = 0;
            assert_eq!([cudaGetDeviceCount(&mut count), count], [0, 3]);
        }
    });
}

#[test]
fn a_device_falls_off_and_the_others_go_on() {
    let fail = [("SOFTGPU_FAIL", "device:1@100ms")];
    in_child_with("a_device_falls_off_and_the_others_go_on", DEVICES, &fail, || {
        // SAFETY: takes no pointers.
        unsafe {
            assert_eq!(cudaSetDevice(1), 0);
            assert_eq!(malloc(), 0);
            std::thread::sleep(Duration::from_millis(150));
            assert_eq!(malloc(), 999);
            // Monitors see it too.
            let mut handle = 0;
            assert_eq!(nvmlInit_v2(), 0);
            assert_eq!(
                [0, 1].map(|device| nvmlDeviceGetHandleByIndex_v2(device, &mut handle)),
                [0, 15]
            );
            assert_eq!(cudaDeviceReset(), 0);
            assert_eq!(malloc(), 999);
            assert_eq!(cudaSetDevice(0), 0);
            assert_eq!(malloc(), 0);
        }
    });
}

#[test]
fn what_cannot_be_read_is_refused() {
    let fail = [("SOFTGPU_FAIL", "fire@noon")];
    let text = in_child_with("what_cannot_be_read_is_refused", DEVICES, &fail, || {
        let mut count = 9;
        // SAFETY: an out pointer of our own.
        assert_eq!(unsafe { cudaGetDeviceCount(&mut count) }, 3);
        assert_eq!(count, 0);
    });
    assert!(text.contains("SOFTGPU_FAIL=fire@noon"), "{text}");
}
