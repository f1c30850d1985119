//! Copies of planes and boxes, and arrays.

mod common;

use std::ffi::c_void;

use common::{MIB, in_child, ok};
use mgb_abi::array::ChannelFormatDesc;
use mgb_abi::copy::{DEVICE_TO_HOST as TO_HOST, HOST_TO_DEVICE as TO_DEVICE};
use mgb_abi::copy3d::{CopySide, CudaExtent, Memcpy3DParms, PitchedPtr, Pos};
use softgpu::cudart::array::*;
use softgpu::cudart::channel::cudaCreateChannelDesc;
use softgpu::cudart::copy::{cudaMemcpy, cudaMemcpy2D};
use softgpu::cudart::copy3d::{cudaMemcpy3D, cudaMemcpy3DAsync};
use softgpu::cudart::device::{cudaDeviceReset, cudaDeviceSynchronize};
use softgpu::cudart::memory::{cudaMalloc3D, cudaMallocPitch, cudaMemGetInfo};
use softgpu::cudart::set::{cudaMemset2D, cudaMemset3D};

const DEVICES: &str = "1x64MiB";
const INVALID_VALUE: i32 = 1;
const INVALID_PITCH: i32 = 12;
const INVALID_CHANNEL_DESCRIPTOR: i32 = 20;
const INVALID_HANDLE: i32 = 400;

fn memory(ptr: PitchedPtr, [x, y, z]: [usize; 3]) -> CopySide {
    CopySide {
        pos: Pos { x, y, z },
        ..CopySide::pitched(ptr)
    }
}

fn in_array(array: usize, [x, y, z]: [usize; 3]) -> CopySide {
    CopySide::array(array as *mut c_void, Pos { x, y, z })
}

fn on_host(bytes: &mut [u8], pitch: usize, ysize: usize) -> PitchedPtr {
    PitchedPtr {
        ptr: bytes.as_mut_ptr().cast(),
        pitch,
        xsize: pitch,
        ysize,
    }
}

fn boxed(dst: CopySide, src: CopySide, [width, height, depth]: [usize; 3], kind: u32) -> i32 {
    let extent = CudaExtent { width, height, depth };
    // SAFETY: both sides hold the box, or the call refuses.
    unsafe {
        cudaMemcpy3D(&Memcpy3DParms {
            src,
            dst,
            extent,
            kind,
        })
    }
}

fn bytes(format: i32) -> ChannelFormatDesc {
    cudaCreateChannelDesc(format, 0, 0, 0, 1)
}

fn free_memory() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: out pointers of our own.
    ok(unsafe { cudaMemGetInfo(&mut free, &mut total) });
    free
}

#[test]
fn boxes_go_to_pitched_memory_and_back() {
    in_child("boxes_go_to_pitched_memory_and_back", DEVICES, || {
        let mut device = PitchedPtr::NULL;
        let whole = CudaExtent {
            width: 100,
            height: 5,
            depth: 3,
        };
        // SAFETY: out pointers and buffers of our own.
        unsafe {
            ok(cudaMalloc3D(&mut device, whole));
            assert_eq!((device.pitch, device.xsize, device.ysize), (512, 100, 5));
            ok(cudaMemset3D(device, 0xee, whole));
            let mut host: Vec<u8> = (0..20 * 4 * 2).map(|n| n as u8).collect();
            let from = on_host(&mut host, 20, 4);
            let to = memory(device, [3, 1, 1]);
            ok(boxed(to, memory(from, [0; 3]), [20, 4, 2], TO_DEVICE));
            let mut back = vec![0u8; 100 * 5 * 3];
            let all = on_host(&mut back, 100, 5);
            ok(boxed(
                memory(all, [0; 3]),
                memory(device, [0; 3]),
                [100, 5, 3],
                TO_HOST,
            ));
            for (at, &byte) in back.iter().enumerate() {
                let (x, y, z) = (at % 100, at / 100 % 5, at / 500);
                let inside = (3..23).contains(&x) && y >= 1 && z >= 1;
                let expected = if inside {
                    ((z - 1) * 80 + (y - 1) * 20 + x - 3) as u8
                } else {
                    0xee
                };
                assert_eq!(byte, expected, "at {x} {y} {z}");
            }
            let wide = memory(from, [0; 3]);
            assert_eq!(
                boxed(memory(device, [0; 3]), wide, [21, 4, 2], TO_DEVICE),
                INVALID_PITCH
            );
            assert_eq!(
                boxed(memory(device, [0; 3]), wide, [20, 5, 2], TO_DEVICE),
                INVALID_VALUE
            );
            assert_eq!(
                boxed(memory(PitchedPtr::NULL, [0; 3]), wide, [1, 1, 1], TO_DEVICE),
                INVALID_VALUE
            );
            assert_eq!(cudaMemcpy3D(std::ptr::null()), INVALID_VALUE);
            ok(boxed(memory(device, [0; 3]), wide, [0, 4, 2], TO_DEVICE));
        }
    });
}

#[test]
fn planes_keep_what_lies_between_their_rows() {
    in_child("planes_keep_what_lies_between_their_rows", DEVICES, || {
        let (mut device, mut pitch) = (std::ptr::null_mut(), 0);
        let mut raw = [0u8; 512 + 8];
        // SAFETY: out pointers and buffers of our own.
        unsafe {
            ok(cudaMallocPitch(&mut device, &mut pitch, 8, 3));
            assert_eq!(pitch, 512);
            ok(cudaMemset2D(device, 512, 1, 512, 3));
            ok(cudaMemset2D(device, 512, 2, 8, 2));
            ok(cudaMemcpy(raw.as_mut_ptr().cast(), device, raw.len(), TO_HOST));
            assert_eq!((raw[7], raw[8], raw[511], raw[512]), (2, 1, 1, 2));
            let to = raw.as_mut_ptr().cast::<c_void>();
            assert_eq!(cudaMemcpy2D(to, 4, device, 512, 8, 2, TO_HOST), INVALID_PITCH);
            assert_eq!(cudaMemcpy2D(to, 8, device, 512, 8, 2, 9), 21);
            // Past the end of the allocation.
            assert_eq!(cudaMemcpy2D(to, 8, device, 512, 8, 9, TO_HOST), INVALID_VALUE);
        }
    });
}

#[test]
fn arrays_hold_what_is_copied_into_them() {
    in_child("arrays_hold_what_is_copied_into_them", DEVICES, || {
        let (mut array, mut other) = (0, 0);
        let floats: Vec<f32> = (0..6 * 4).map(|n| n as f32).collect();
        let mut back = [0f32; 24];
        // SAFETY: out pointers and buffers of our own, as large as what is copied.
        unsafe {
            let before = free_memory();
            let format = cudaCreateChannelDesc(32, 0, 0, 0, 2);
            ok(cudaMallocArray(&mut array, &format, 6, 4, 0));
            ok(cudaMallocArray(&mut other, &format, 6, 4, 0));
            assert!(free_memory() < before, "arrays take no memory");
            let from = floats.as_ptr().cast();
            ok(cudaMemcpy2DToArray(array, 0, 0, from, 24, 24, 4, TO_DEVICE));
            ok(cudaMemcpy2DArrayToArray(other, 4, 1, array, 0, 0, 8, 2, 3));
            let to = back.as_mut_ptr().cast();
            ok(cudaMemcpy2DFromArray(to, 24, other, 0, 0, 24, 4, TO_HOST));
            assert_eq!((back[7], back[8], back[13], back[14]), (0.0, 1.0, 6.0, 7.0));
            ok(cudaMemcpyFromArray(to, array, 8, 3, 16, TO_HOST));
            assert_eq!(back[..4], [20.0, 21.0, 22.0, 23.0]);

            // One row too many, and a row too long.
            assert_eq!(
                cudaMemcpy2DToArray(array, 0, 1, from, 24, 24, 4, TO_DEVICE),
                INVALID_VALUE
            );
            assert_eq!(
                cudaMemcpy2DToArray(array, 4, 0, from, 24, 24, 4, TO_DEVICE),
                INVALID_VALUE
            );
            let (mut found, mut extent, mut flags) = (bytes(8), NO_EXTENT, 9);
            ok(cudaArrayGetInfo(&mut found, &mut extent, &mut flags, array));
            assert_eq!(
                (found, extent.width, extent.height, extent.depth),
                (format, 6, 4, 0)
            );
            assert_eq!(flags, 0);
            ok(cudaFreeArray(array));
            ok(cudaFreeArray(other));
            ok(cudaFreeArray(0));
            assert_eq!(cudaFreeArray(array), INVALID_VALUE);
            assert_eq!(
                cudaMemcpy2DToArray(array, 0, 0, from, 24, 24, 4, TO_DEVICE),
                INVALID_HANDLE
            );
            assert_eq!(free_memory(), before);
        }
    });
}

const NO_EXTENT: CudaExtent = CudaExtent {
    width: 0,
    height: 0,
    depth: 0,
};

#[test]
fn boxes_count_elements_where_an_array_takes_part() {
    in_child("boxes_count_elements_where_an_array_takes_part", DEVICES, || {
        let mut array = 0;
        let mut host: Vec<u8> = (0..16 * 3 * 2).map(|n| n as u8).collect();
        let mut back = vec![0u8; 16 * 3 * 2];
        // SAFETY: out pointers and buffers of our own.
        unsafe {
            let extent = CudaExtent {
                width: 4,
                height: 3,
                depth: 2,
            };
            let format = cudaCreateChannelDesc(16, 16, 0, 0, 0);
            ok(cudaMalloc3DArray(&mut array, &format, extent, 0));
            let from = memory(on_host(&mut host, 16, 3), [0; 3]);
            ok(boxed(in_array(array, [0; 3]), from, [4, 3, 2], TO_DEVICE));
            let to = memory(on_host(&mut back, 16, 3), [0; 3]);
            let parameters = Memcpy3DParms {
                src: in_array(array, [1, 1, 1]),
                dst: to,
                extent: CudaExtent {
                    width: 3,
                    height: 2,
                    depth: 1,
                },
                kind: 4,
            };
            ok(cudaMemcpy3DAsync(&parameters, 0));
            ok(cudaDeviceSynchronize());
            assert_eq!(back[..12], host[48 + 16 + 4..48 + 32]);
            assert_eq!(back[16..28], host[48 + 32 + 4..]);
            assert_eq!(back[12..16], [0; 4]);
            assert_eq!(
                boxed(in_array(array, [1, 0, 0]), from, [4, 3, 2], TO_DEVICE),
                INVALID_VALUE
            );
        }
    });
}

#[test]
fn arrays_of_no_device_are_refused() {
    in_child("arrays_of_no_device_are_refused", DEVICES, || {
        let mut array = 0;
        // SAFETY: out pointers of our own.
        unsafe {
            ok(cudaDeviceSynchronize());
            let before = free_memory();
            for bad in [
                cudaCreateChannelDesc(12, 0, 0, 0, 0),
                cudaCreateChannelDesc(8, 8, 8, 0, 0),
                cudaCreateChannelDesc(8, 16, 0, 0, 0),
                cudaCreateChannelDesc(8, 0, 0, 0, 2),
                cudaCreateChannelDesc(0, 0, 0, 0, 0),
            ] {
                assert_eq!(
                    cudaMallocArray(&mut array, &bad, 4, 4, 0),
                    INVALID_CHANNEL_DESCRIPTOR
                );
            }
            assert_eq!(cudaMallocArray(&mut array, &bytes(8), 0, 4, 0), INVALID_VALUE);
            assert_eq!(
                cudaMallocArray(&mut array, std::ptr::null(), 4, 4, 0),
                INVALID_VALUE
            );
            assert_eq!(
                cudaMallocArray(std::ptr::null_mut(), &bytes(8), 4, 4, 0),
                INVALID_VALUE
            );
            assert_eq!(cudaMallocArray(&mut array, &bytes(8), 64 * MIB, 1, 0), 2);
            assert_eq!(free_memory(), before);
            ok(cudaMallocArray(&mut array, &bytes(8), 4, 4, 0));
            ok(cudaDeviceReset());
            assert_eq!(cudaFreeArray(array), INVALID_VALUE);
        }
    });
}
