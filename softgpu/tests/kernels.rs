//! Kernels, from images written by hand as the pass would make them: threads, barriers, warps,
//! variables, and everything that can go wrong.

mod common;
#[path = "kernels/device.rs"]
mod device;

use std::ffi::{CStr, c_void};

use common::in_child;
use device::{STUBS, TestKernel, register};
use mgb_abi::launch::Dim3;
use softgpu::cudart::copy::cudaMemcpy;
use softgpu::cudart::device::{cudaDeviceReset, cudaDeviceSynchronize};
use softgpu::cudart::errors::{cudaGetErrorName, cudaGetLastError};
use softgpu::cudart::launch::cudaLaunchKernel;
use softgpu::cudart::memory::{cudaFree, cudaMalloc};
use softgpu::cudart::symbol::{cudaMemcpyFromSymbol, cudaMemcpyToSymbol};

const DEVICES: &str = "1x64MiB";

fn name(code: i32) -> &'static str {
    // SAFETY: always a constant string.
    unsafe { CStr::from_ptr(cudaGetErrorName(code)) }
        .to_str()
        .unwrap()
}

fn malloc(bytes: usize) -> *mut c_void {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: an out pointer of our own.
    assert_eq!(unsafe { cudaMalloc(&mut pointer, bytes) }, 0);
    pointer
}

fn upload(values: &[u32]) -> *mut c_void {
    let pointer = malloc(size_of_val(values));
    // SAFETY: both sides have this size.
    let code = unsafe { cudaMemcpy(pointer, values.as_ptr().cast(), size_of_val(values), 1) };
    assert_eq!(code, 0);
    pointer
}

fn download(pointer: *mut c_void, count: usize) -> Vec<u32> {
    let mut values = vec![0u32; count];
    // SAFETY: both sides have this size.
    let code = unsafe { cudaMemcpy(values.as_mut_ptr().cast(), pointer, count * 4, 2) };
    assert_eq!(code, 0);
    values
}

/// Launches a kernel with 64-bit arguments; the launch's own code.
fn launch(code: TestKernel, grid: u32, block: u32, shared: usize, arguments: &[u64]) -> i32 {
    let mut pointers: Vec<*mut c_void> = arguments
        .iter()
        .map(|argument| std::ptr::from_ref(argument).cast_mut().cast())
        .collect();
    let (grid, block) = (Dim3 { x: grid, y: 1, z: 1 }, Dim3 { x: block, y: 1, z: 1 });
    let stub = std::ptr::from_ref(&STUBS[code as usize]).cast::<c_void>();
    // SAFETY: the kernels take as many 64-bit values as the tests pass.
    unsafe { cudaLaunchKernel(stub, grid, block, pointers.as_mut_ptr(), shared, 0) }
}

fn synchronize() -> i32 {
    // SAFETY: takes no pointers.
    unsafe { cudaDeviceSynchronize() }
}

#[test]
fn every_thread_of_every_block_runs_once() {
    in_child("every_thread_of_every_block_runs_once", DEVICES, || {
        register();
        let n = 100_000u32;
        let a: Vec<u32> = (0..n).collect();
        let (a, b) = (upload(&a), upload(&vec![7; n as usize]));
        let c = malloc(n as usize * 4);
        for _ in 0..3 {
            let arguments = [a as u64, b as u64, c as u64, u64::from(n)];
            assert_eq!(launch(TestKernel::Add, n.div_ceil(256), 256, 0, &arguments), 0);
        }
        assert_eq!(download(c, n as usize), (0..n).map(|i| i + 7).collect::<Vec<_>>());
        // SAFETY: our own allocations.
        assert_eq!(unsafe { (cudaFree(a), cudaFree(b), cudaFree(c)) }, (0, 0, 0));
    });
}

#[test]
fn blocks_of_1024_threads_meet_at_barriers() {
    in_child("blocks_of_1024_threads_meet_at_barriers", DEVICES, || {
        register();
        for threads in [1, 33, 256, 1024] {
            let sums = upload(&[0; 40]);
            assert_eq!(
                launch(
                    TestKernel::TreeSum,
                    40,
                    threads,
                    threads as usize * 4,
                    &[sums as u64]
                ),
                0
            );
            assert_eq!(download(sums, 40), vec![threads * (threads + 1) / 2; 40]);
        }
    });
}

#[test]
fn warps_shuffle_vote_and_diverge() {
    in_child("warps_shuffle_vote_and_diverge", DEVICES, || {
        register();
        let out = upload(&[0; 64]);
        assert_eq!(launch(TestKernel::WarpSum, 1, 64, 0, &[out as u64]), 0);
        let expected = |i: u32| (0..32).map(|lane| i / 32 * 32 + lane).sum::<u32>();
        assert_eq!(download(out, 64), (0..64).map(expected).collect::<Vec<_>>());
        assert_eq!(launch(TestKernel::Diverge, 1, 64, 0, &[out as u64]), 0);
        let expected = |i: u32| {
            if i.is_multiple_of(2) {
                0x5555_5555
            } else {
                0xaaaa_aaaa
            }
        };
        assert_eq!(download(out, 64), (0..64).map(expected).collect::<Vec<_>>());
    });
}

#[test]
fn threads_that_ended_count_at_barriers() {
    in_child("threads_that_ended_count_at_barriers", DEVICES, || {
        register();
        let out = upload(&[0; 1]);
        assert_eq!(launch(TestKernel::EarlyExit, 8, 96, 0, &[out as u64]), 0);
        assert_eq!(download(out, 1), [8 * 48]);
    });
}

#[test]
fn a_hang_is_an_error_that_names_the_kernel() {
    let text = in_child("a_hang_is_an_error_that_names_the_kernel", DEVICES, || {
        register();
        assert_eq!(launch(TestKernel::Hang, 1, 64, 0, &[]), 0);
        assert_eq!(name(synchronize()), "cudaErrorLaunchFailure");
        assert_eq!(name(cudaGetLastError()), "cudaErrorLaunchFailure");
        // Sticky, until the process ends.
        assert_eq!(name(synchronize()), "cudaErrorLaunchFailure");
        assert_eq!(
            name(launch(TestKernel::Hang, 1, 64, 0, &[])),
            "cudaErrorLaunchFailure"
        );
        // SAFETY: takes no pointers.
        assert_eq!(unsafe { cudaDeviceReset() }, 0);
        assert_eq!(name(synchronize()), "cudaErrorDevicesUnavailable");
    });
    assert!(text.contains("kernel hang hangs in block (0,0,0)"), "{text}");
    assert!(text.contains("1 of 64 threads wait at barrier 1"), "{text}");
}

fn fails(test: &str, code: TestKernel, expected: &str, arguments: &'static [u64]) -> String {
    in_child(test, DEVICES, || {
        register();
        assert_eq!(launch(code, 4, 64, 0, arguments), 0);
        assert_eq!(name(synchronize()), expected);
        let mut pointer = std::ptr::null_mut();
        // SAFETY: an out pointer of our own.
        assert_eq!(name(unsafe { cudaMalloc(&mut pointer, 4) }), expected);
    })
}

#[test]
fn a_wild_address_is_found() {
    let text = fails(
        "a_wild_address_is_found",
        TestKernel::Store,
        "cudaErrorIllegalAddress",
        &[0x10],
    );
    assert!(
        text.contains("kernel store touched 0x10, where it has no memory (block ("),
        "{text}"
    );
}

#[test]
fn deep_recursion_is_found() {
    fails(
        "deep_recursion_is_found",
        TestKernel::Recurse,
        "cudaErrorIllegalAddress",
        &[1 << 40],
    );
}

#[test]
fn a_trap_is_named() {
    let text = fails("a_trap_is_named", TestKernel::Trap, "cudaErrorLaunchFailure", &[]);
    assert!(text.contains("kernel trap stopped: llvm.trap (block ("), "{text}");
}

#[test]
fn an_assertion_is_printed_as_cuda_prints_it() {
    let text = fails(
        "an_assertion_is_printed_as_cuda_prints_it",
        TestKernel::Assert,
        "cudaErrorAssert",
        &[],
    );
    assert!(text.contains("a.cu:7: f: block: ["), "{text}");
    assert!(text.contains("Assertion `x > 0` failed."), "{text}");
}

#[test]
fn a_barrier_in_a_kernel_not_marked_for_it_is_named() {
    let text = fails(
        "a_barrier_in_a_kernel_not_marked_for_it_is_named",
        TestKernel::Unmarked,
        "cudaErrorLaunchFailure",
        &[],
    );
    assert!(
        text.contains("kernel unmarked calls a barrier, but was not translated as one"),
        "{text}"
    );
}

#[test]
fn freed_memory_faults() {
    in_child("freed_memory_faults", DEVICES, || {
        register();
        let memory = malloc(4 << 20);
        assert_eq!(launch(TestKernel::Store, 1, 1, 0, &[memory as u64]), 0);
        assert_eq!(synchronize(), 0);
        // SAFETY: our own allocation.
        assert_eq!(unsafe { cudaFree(memory) }, 0);
        assert_eq!(launch(TestKernel::Store, 1, 1, 0, &[memory as u64]), 0);
        assert_eq!(name(synchronize()), "cudaErrorIllegalAddress");
    });
}

#[test]
fn printf_comes_out_in_order() {
    let text = in_child("printf_comes_out_in_order", DEVICES, || {
        register();
        assert_eq!(launch(TestKernel::Print, 3, 1, 0, &[]), 0);
        assert_eq!(synchronize(), 0);
    });
    for block in 0..3 {
        assert!(text.contains(&format!("block {block} of 3: 0.50\n")), "{text}");
    }
}

#[test]
fn launches_are_checked_as_cuda_checks_them() {
    in_child("launches_are_checked_as_cuda_checks_them", DEVICES, || {
        register();
        for (grid, block, shared, expected) in [
            (1, 1025, 0, "cudaErrorInvalidValue"),
            (0, 32, 0, "cudaErrorInvalidValue"),
            (1, 0, 0, "cudaErrorInvalidValue"),
            (1, 32, 49 << 10, "cudaErrorInvalidValue"),
        ] {
            let code = launch(TestKernel::TreeSum, grid, block, shared, &[0]);
            assert_eq!(name(code), expected);
            assert_eq!(name(cudaGetLastError()), expected);
            assert_eq!(cudaGetLastError(), 0);
        }
        assert_eq!(
            name(launch(TestKernel::Untranslated, 1, 1, 0, &[])),
            "cudaErrorNotSupported"
        );
        assert_eq!(synchronize(), 0);
    });
}

#[test]
fn an_unknown_stub_is_an_invalid_handle() {
    in_child("an_unknown_stub_is_an_invalid_handle", DEVICES, || {
        let nobody = 0u8;
        let one = Dim3 { x: 1, y: 1, z: 1 };
        let stub = std::ptr::from_ref(&nobody).cast();
        // SAFETY: nothing is launched.
        let code = unsafe { cudaLaunchKernel(stub, one, one, std::ptr::null_mut(), 0, 0) };
        assert_eq!(name(code), "cudaErrorInvalidResourceHandle");
    });
}

#[test]
fn variables_start_as_the_image_says_and_can_be_copied() {
    in_child(
        "variables_start_as_the_image_says_and_can_be_copied",
        DEVICES,
        || {
            register();
            let out = upload(&[0; 2]);
            assert_eq!(launch(TestKernel::Variables, 1, 1, 0, &[out as u64]), 0);
            // The second is read through the pointer that the relocation made.
            assert_eq!(download(out, 2), [11, 22]);
            let symbol = std::ptr::from_ref(&device::SHADOW).cast::<c_void>();
            let mut values = [0u32; 2];
            // SAFETY: the variable has eight bytes.
            unsafe {
                assert_eq!(cudaMemcpyToSymbol(symbol, [5u32].as_ptr().cast(), 4, 4, 1), 0);
                assert_eq!(
                    cudaMemcpyFromSymbol(values.as_mut_ptr().cast(), symbol, 8, 0, 2),
                    0
                );
                assert_eq!(
                    name(cudaMemcpyToSymbol(symbol, values.as_ptr().cast(), 8, 4, 1)),
                    "cudaErrorInvalidValue"
                );
            }
            assert_eq!(values, [11, 5]);
            assert_eq!(launch(TestKernel::Variables, 1, 1, 0, &[out as u64]), 0);
            assert_eq!(download(out, 2), [11, 5]);
        },
    );
}
