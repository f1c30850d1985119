//! Batches of copies and of discards.

mod common;

use std::ffi::c_void;

use common::{MIB, in_child};
use mgb_abi::copy::MemcpyAttributes;
use mgb_abi::copy3d::{CudaExtent, Memcpy3DBatchOp, Memcpy3DOperand, OPERAND_POINTER};
use mgb_abi::location::MemLocation;
use softgpu::cudart::batch::*;
use softgpu::cudart::memory::cudaMalloc;
use softgpu::cudart::stream::{cudaStreamCreate, cudaStreamSynchronize};

const DEVICES: &str = "1x64MiB";

fn start() -> (usize, *mut c_void) {
    let (mut stream, mut memory) = (0, std::ptr::null_mut());
    // SAFETY: out pointers of our own.
    unsafe {
        assert_eq!(cudaStreamCreate(&mut stream), 0);
        assert_eq!(cudaMalloc(&mut memory, MIB), 0);
    }
    (stream, memory)
}

fn attributes(order: u32) -> MemcpyAttributes {
    MemcpyAttributes {
        src_access_order: order,
        src_location_hint: MemLocation::INVALID,
        dst_location_hint: MemLocation::INVALID,
        flags: 0,
    }
}

#[test]
fn a_batch_copies_all_or_says_why_not() {
    in_child("a_batch_copies_all_or_says_why_not", DEVICES, || {
        let (stream, device) = start();
        let from: Vec<u8> = (0..200).collect();
        let mut back = [0u8; 200];
        let second = device.wrapping_byte_add(1000);
        let sources = [from.as_ptr().cast::<c_void>(), from[100..].as_ptr().cast()];
        let sizes = [100, 100];
        let run = |to: [*mut c_void; 2],
                   sources: [*const c_void; 2],
                   orders: [u32; 2],
                   starts: [usize; 2],
                   stream| {
            let attributes = orders.map(attributes);
            // SAFETY: arrays of two, and buffers of these sizes.
            unsafe {
                cudaMemcpyBatchAsync(
                    to.as_ptr(),
                    sources.as_ptr(),
                    sizes.as_ptr(),
                    2,
                    attributes.as_ptr(),
                    starts.as_ptr(),
                    2,
                    stream,
                )
            }
        };
        assert_eq!(run([device, second], sources, [2, 3], [0, 1], stream), 0);
        let halves = [back.as_mut_ptr().cast(), back[100..].as_mut_ptr().cast()];
        assert_eq!(
            run(
                halves,
                [device.cast_const(), second.cast_const()],
                [1, 1],
                [0, 1],
                stream
            ),
            0
        );
        // SAFETY: takes no pointers.
        assert_eq!(unsafe { cudaStreamSynchronize(stream) }, 0);
        assert_eq!(back.as_slice(), from);
        // An order that is none, parts that do not begin at zero, the legacy stream, memory that is none.
        assert_eq!(run([device, second], sources, [0, 1], [0, 1], stream), 1);
        assert_eq!(run([device, second], sources, [1, 1], [1, 1], stream), 1);
        assert_eq!(run([device, second], sources, [1, 1], [0, 1], 0), 1);
        let beyond = device.wrapping_byte_add(MIB - 50);
        assert_eq!(run([device, beyond], sources, [1, 1], [0, 1], stream), 1);
    });
}

#[test]
fn a_batch_copies_boxes() {
    in_child("a_batch_copies_boxes", DEVICES, || {
        let (stream, device) = start();
        let from: Vec<u8> = (0..120).collect();
        let mut back = [0u8; 8];
        let pointer = |object: usize, row_length, layer_height| Memcpy3DOperand {
            kind: OPERAND_POINTER,
            object,
            row_length,
            layer_height,
            location_hint: MemLocation::INVALID,
        };
        let one = |src, dst, width, height| Memcpy3DBatchOp {
            src,
            dst,
            extent: CudaExtent {
                width,
                height,
                depth: 1,
            },
            src_access_order: 1,
            flags: 0,
        };
        // Rows of 12 into rows of 20; then 4 of two of them back.
        let boxes = [one(
            pointer(from.as_ptr() as usize, 0, 0),
            pointer(device as usize, 20, 10),
            12,
            10,
        )];
        let part = [one(
            pointer(device as usize + 3, 20, 0),
            pointer(back.as_mut_ptr() as usize, 0, 0),
            4,
            2,
        )];
        // SAFETY: buffers of these sizes.
        unsafe {
            assert_eq!(cudaMemcpy3DBatchAsync(1, boxes.as_ptr(), 0, stream), 0);
            assert_eq!(cudaMemcpy3DBatchAsync(1, part.as_ptr(), 0, stream), 0);
            assert_eq!(cudaStreamSynchronize(stream), 0);
            assert_eq!(cudaMemcpy3DBatchAsync(1, part.as_ptr(), 1, stream), 1);
        }
        assert_eq!(back, [3, 4, 5, 6, 15, 16, 17, 18]);
    });
}

#[test]
fn only_managed_memory_is_discarded() {
    in_child("only_managed_memory_is_discarded", DEVICES, || {
        let (stream, device) = start();
        let mut managed = std::ptr::null_mut();
        let discard = |pointer: *mut c_void, size: usize| {
            // SAFETY: arrays of one.
            unsafe { cudaMemDiscardBatchAsync(&pointer, &size, 1, 0, stream) }
        };
        // SAFETY: an out pointer of our own.
        let allocated = unsafe { softgpu::cudart::memory::cudaMallocManaged(&mut managed, MIB, 1) };
        assert_eq!(allocated, 0);
        assert_eq!(
            [
                discard(managed, MIB),
                discard(managed, 2 * MIB),
                discard(device, 8)
            ],
            [0, 1, 1]
        );
    });
}
