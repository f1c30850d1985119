//! Devices of named kinds, mixed on one node: what the runtime, the driver and NVML say of them, and what
//! they allow.

mod common;
#[path = "kernels/device.rs"]
mod device;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;

use common::in_child;
use device::{STUBS, TestKernel, register};
use mgb_abi::launch::Dim3;
use mgb_abi::properties::DeviceProp;
use softgpu::cudart::attributes::{cudaFuncSetAttribute, cudaOccupancyMaxActiveBlocksPerMultiprocessor};
use softgpu::cudart::device::{
    cudaDeviceGetAttribute, cudaDeviceSynchronize, cudaGetDeviceProperties, cudaSetDevice,
};
use softgpu::cudart::launch::cudaLaunchKernel;
use softgpu::driver::device::cuDeviceGetName;
use softgpu::nvml::device::{
    nvmlDeviceGetCudaComputeCapability, nvmlDeviceGetHandleByIndex_v2, nvmlDeviceGetName,
    nvmlDeviceGetNumGpuCores,
};
use softgpu::nvml::system::nvmlInit_v2;

const DEVICES: &str = "P100:256MiB,V100:256MiB,2xA100,H100:128MiB,H200,64MiB";

fn properties(device: c_int) -> DeviceProp {
    let mut properties = MaybeUninit::uninit();
    // SAFETY: an out pointer of our own, written where the call succeeds.
    unsafe {
        assert_eq!(cudaGetDeviceProperties(properties.as_mut_ptr(), device), 0);
        properties.assume_init()
    }
}

fn attribute(number: c_int, device: c_int) -> c_int {
    let mut value = -1;
    // SAFETY: an out pointer of our own.
    assert_eq!(unsafe { cudaDeviceGetAttribute(&mut value, number, device) }, 0);
    value
}

fn text(bytes: &[c_char]) -> String {
    // SAFETY: callers pass a string that softgpu ended.
    unsafe { CStr::from_ptr(bytes.as_ptr()) }
        .to_str()
        .unwrap()
        .to_owned()
}

#[test]
fn properties_are_the_kinds() {
    in_child("properties_are_the_kinds", DEVICES, || {
        let all: Vec<_> = (0..7).map(properties).collect();
        let kinds: Vec<_> = all
            .iter()
            .map(|p| {
                (
                    p.major,
                    p.minor,
                    p.multi_processor_count,
                    p.shared_mem_per_block_optin >> 10,
                    p.l2_cache_size >> 20,
                )
            })
            .collect();
        let a100 = (8, 0, 108, 163, 40);
        assert_eq!(
            kinds,
            [
                (6, 0, 56, 48, 4),
                (7, 0, 80, 96, 6),
                a100,
                a100,
                (9, 0, 132, 227, 50),
                (9, 0, 132, 227, 60),
                (9, 0, 132, 227, 60)
            ]
        );
        let memory: Vec<_> = all.iter().map(|p| p.total_global_mem >> 20).collect();
        assert_eq!(memory, [256, 256, 40 << 10, 40 << 10, 128, 143_771, 64]);
        for (device, properties) in all.iter().enumerate() {
            let device = device as c_int;
            assert_eq!(attribute(75, device), properties.major);
            assert_eq!(attribute(16, device), properties.multi_processor_count);
            assert_eq!(attribute(37, device), properties.memory_bus_width);
        }
        assert_eq!(
            [0, 2, 5].map(|device| attribute(13, device)),
            [1_480_500, 1_410_000, 1_980_000]
        );
    });
}

#[test]
fn the_driver_and_monitors_say_the_same() {
    in_child("the_driver_and_monitors_say_the_same", DEVICES, || {
        for device in 0..7 {
            let properties = properties(device);
            let (mut driver, mut monitor) = ([0; 96], [0; 96]);
            let (mut handle, mut cores, mut major, mut minor) = (0, 0, 0, 0);
            // SAFETY: buffers and out pointers of our own.
            unsafe {
                assert_eq!(cuDeviceGetName(driver.as_mut_ptr(), 96, device), 0);
                assert_eq!(nvmlInit_v2(), 0);
                assert_eq!(nvmlDeviceGetHandleByIndex_v2(device as u32, &mut handle), 0);
                assert_eq!(nvmlDeviceGetName(handle, monitor.as_mut_ptr(), 96), 0);
                assert_eq!(nvmlDeviceGetNumGpuCores(handle, &mut cores), 0);
                assert_eq!(
                    nvmlDeviceGetCudaComputeCapability(handle, &mut major, &mut minor),
                    0
                );
            }
            assert_eq!(text(&driver), text(&properties.name));
            assert_eq!(text(&monitor), text(&properties.name));
            assert_eq!((major, minor), (properties.major, properties.minor));
            let lanes = if (6..=8).contains(&major) { 64 } else { 128 };
            assert_eq!(cores, lanes * properties.multi_processor_count as u32);
        }
    });
}

/// What a launch of one block with so much dynamic shared memory returns, once the kernel has asked for it.
fn with_shared(device: c_int, bytes: usize) -> [c_int; 2] {
    let stub = std::ptr::from_ref(&STUBS[TestKernel::Pretend as usize]).cast::<c_void>();
    let (one, operations) = (Dim3 { x: 1, y: 1, z: 1 }, 1u64);
    let mut arguments = [std::ptr::from_ref(&operations).cast_mut().cast()];
    // SAFETY: the kernel takes one 64-bit value.
    unsafe {
        assert_eq!(cudaSetDevice(device), 0);
        let asked = cudaFuncSetAttribute(stub, 8, bytes as c_int);
        let launched = cudaLaunchKernel(stub, one, one, arguments.as_mut_ptr(), bytes, 0);
        assert_eq!(cudaDeviceSynchronize(), 0);
        [asked, launched]
    }
}

#[test]
fn a_block_gets_what_its_device_has() {
    in_child("a_block_gets_what_its_device_has", DEVICES, || {
        register();
        for (device, most) in [(0, 48), (1, 96), (2, 163), (4, 227)] {
            assert_eq!(with_shared(device, most << 10), [0, 0], "{device}");
            assert_eq!(with_shared(device, (most << 10) + 1), [1, 1], "{device}");
        }
        let stub = std::ptr::from_ref(&STUBS[TestKernel::Pretend as usize]).cast::<c_void>();
        let blocks = |device| {
            let mut blocks = 0;
            // SAFETY: an out pointer of our own.
            unsafe {
                assert_eq!(cudaSetDevice(device), 0);
                assert_eq!(
                    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, stub, 64, 40 << 10),
                    0
                );
            }
            blocks
        };
        assert_eq!([0, 1, 2, 4].map(blocks), [1, 2, 4, 5]);
    });
}
