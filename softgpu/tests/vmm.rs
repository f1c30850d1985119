//! The driver's virtual memory management, as lazyrt uses it.

mod common;

use common::{MIB, in_child};
use mgb_abi::location::MemLocation;
use mgb_abi::pool::{ALLOCATION_PINNED, MemAccessDesc};
use mgb_abi::vmm::MemAllocationProp;
use softgpu::cudart::copy::cudaMemcpy;
use softgpu::cudart::memory::cudaMemGetInfo;
use softgpu::driver::context::{cuCtxSetCurrent, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxRetain};
use softgpu::driver::copy::{cuMemcpyDtoH_v2, cuMemcpyHtoD_v2};
use softgpu::driver::device::cuInit;
use softgpu::driver::set::{cuMemsetD8_v2, cuMemsetD32_v2};
use softgpu::driver::vmm::*;

const DEVICES: &str = "2x64MiB";
const G: usize = 2 * MIB;

fn prop(device: i32) -> MemAllocationProp {
    MemAllocationProp {
        alloc_type: ALLOCATION_PINNED,
        handle_types: 0,
        location: MemLocation::device(device),
        win32_handle_metadata: std::ptr::null_mut(),
        alloc_flags: [0; 8],
    }
}

fn reserve(size: usize, at: usize) -> usize {
    let mut address = 0;
    // SAFETY: an out pointer of our own.
    assert_eq!(unsafe { cuMemAddressReserve(&mut address, size, 0, at, 0) }, 0);
    address
}

fn create(device: i32, size: usize) -> (i32, u64) {
    let mut handle = 0;
    // SAFETY: pointers to our own.
    (
        unsafe { cuMemCreate(&mut handle, size, &prop(device), 0) },
        handle,
    )
}

fn map(address: usize, size: usize, handle: u64) -> i32 {
    // SAFETY: takes no pointers to host memory.
    unsafe { cuMemMap(address, size, 0, handle, 0) }
}

fn unmap(address: usize, size: usize) -> i32 {
    // SAFETY: nothing uses the memory.
    unsafe { cuMemUnmap(address, size) }
}

fn access(address: usize, size: usize, device: i32, flags: i32) -> i32 {
    let description = MemAccessDesc {
        location: MemLocation::device(device),
        flags,
    };
    // SAFETY: one description of our own.
    unsafe { cuMemSetAccess(address, size, &description, 1) }
}

fn write(address: usize, bytes: &[u8]) -> i32 {
    // SAFETY: a buffer of our own.
    unsafe { cudaMemcpy(address as *mut _, bytes.as_ptr().cast(), bytes.len(), 1) }
}

fn read(address: usize, count: usize) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0; count];
    // SAFETY: a buffer of our own.
    match unsafe { cudaMemcpy(bytes.as_mut_ptr().cast(), address as *const _, count, 2) } {
        0 => Ok(bytes),
        code => Err(code),
    }
}

fn free() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: out pointers of our own.
    assert_eq!(unsafe { cudaMemGetInfo(&mut free, &mut total) }, 0);
    free
}

#[test]
fn a_large_range_is_reserved_where_it_is_wanted_and_quickly() {
    in_child(
        "a_large_range_is_reserved_where_it_is_wanted_and_quickly",
        DEVICES,
        || {
            let (size, at) = (64usize << 40, 0x1000_0000_0000);
            let begin = std::time::Instant::now();
            for _ in 0..100 {
                let address = reserve(size, at);
                assert_eq!(address, at);
                // SAFETY: our own range.
                assert_eq!(unsafe { cuMemAddressFree(address, size) }, 0);
            }
            assert!(begin.elapsed().as_millis() < 100, "{:?}", begin.elapsed());
            let taken = reserve(G, at);
            assert_ne!(
                reserve(G, taken),
                taken,
                "another place where the wanted one is taken"
            );
            // SAFETY: not our range.
            assert_eq!(unsafe { cuMemAddressFree(taken, 2 * G) }, 1);
        },
    );
}

#[test]
fn memory_is_charged_without_a_context_and_lives_as_long_as_it_is_held() {
    in_child(
        "memory_is_charged_without_a_context_and_lives_as_long_as_it_is_held",
        DEVICES,
        || {
            // SAFETY: out pointers of our own.
            unsafe {
                assert_eq!(cuInit(0), 0);
                let (code, handle) = create(0, 32 * MIB);
                assert_eq!(code, 0);
                let (mut flags, mut active) = (0, 1);
                assert_eq!(cuDevicePrimaryCtxGetState(0, &mut flags, &mut active), 0);
                assert_eq!(active, 0, "no context yet");
                assert_eq!(create(0, 33 * MIB).0, 1, "not a multiple of the granule");
                assert_eq!(create(0, 34 * MIB).0, 2, "out of memory");
                let context = 64 * MIB / 256;
                assert_eq!(free(), 32 * MIB - context);
                let range = reserve(64 * MIB, 0);
                assert_eq!(map(range, 32 * MIB, handle), 0);
                assert_eq!(cuMemRelease(handle), 0);
                assert_eq!(free(), 32 * MIB - context, "still mapped");
                assert_eq!(cuMemRelease(handle), 1, "released twice");
                assert_eq!(map(range + 32 * MIB, 32 * MIB, handle), 1, "released");
                assert_eq!(cuMemAddressFree(range, 64 * MIB), 1, "something is mapped");
                assert_eq!(unmap(range, 32 * MIB), 0);
                assert_eq!(free(), 64 * MIB - context);
                assert_eq!(cuMemAddressFree(range, 64 * MIB), 0);
            }
        },
    );
}

#[test]
fn contents_stay_with_the_handle() {
    in_child("contents_stay_with_the_handle", DEVICES, || {
        let range = reserve(8 * G, 0);
        let (_, handle) = create(1, 2 * G);
        assert_eq!(map(range, 2 * G, handle), 0);
        assert_eq!(write(range, &[1, 2, 3]), 700, "no access yet");
        assert_eq!(access(range, 2 * G, 1, 3), 0);
        assert_eq!(write(range + G - 1, &[1, 2, 3]), 0, "across granules");
        assert_eq!(unmap(range, 2 * G), 0);
        assert_eq!(read(range, 1), Err(700));
        assert_eq!(map(range + 4 * G, 2 * G, handle), 0);
        assert_eq!(access(range + 4 * G, 2 * G, 1, 1), 0);
        assert_eq!(read(range + 5 * G - 1, 3), Ok(vec![1, 2, 3]));
        assert_eq!(write(range + 4 * G, &[1]), 700, "read only");
        // Twice in two places: the same memory.
        assert_eq!(map(range, 2 * G, handle), 0);
        assert_eq!(access(range, 2 * G, 0, 3), 0);
        assert_eq!(write(range, &[9]), 0);
        assert_eq!(read(range + 4 * G, 1), Ok(vec![9]));
    });
}

#[test]
fn mappings_are_whole() {
    in_child("mappings_are_whole", DEVICES, || {
        let range = reserve(8 * G, 0);
        let (_, a) = create(0, 2 * G);
        let (_, b) = create(0, G);
        assert_eq!(map(range + 1, 2 * G, a), 1, "not aligned");
        assert_eq!(map(range, 3 * G, a), 1, "more than there is");
        assert_eq!(map(range + 7 * G, 2 * G, a), 1, "past the end");
        assert_eq!(map(range, 2 * G, 77), 1, "no such handle");
        assert_eq!(map(range, 2 * G, a), 0);
        assert_eq!(map(range + G, G, b), 1, "mapped already");
        assert_eq!(map(range + 2 * G, G, b), 0);
        assert_eq!(access(range, 4 * G, 0, 3), 1, "a hole");
        assert_eq!(access(range, 3 * G, 0, 3), 0);
        assert_eq!(write(range + 2 * G - 2, &[1, 2, 3, 4]), 0, "across mappings");
        assert_eq!(write(range + 3 * G - 2, &[1, 2, 3, 4]), 700, "past the last");
        assert_eq!(unmap(range, G), 1, "half a mapping");
        assert_eq!(unmap(range, 4 * G), 1, "a hole");
        assert_eq!(unmap(range, 3 * G), 0);
        assert_eq!(unmap(range, 3 * G), 1, "unmapped already");
    });
}

#[test]
fn the_driver_copies_and_sets() {
    in_child("the_driver_copies_and_sets", DEVICES, || {
        // SAFETY: buffers and out pointers of our own.
        unsafe {
            let range = reserve(G, 0);
            let (_, handle) = create(0, G);
            assert_eq!((map(range, G, handle), access(range, G, 0, 3)), (0, 0));
            let mut bytes = [0u8; 12];
            assert_eq!(
                cuMemcpyHtoD_v2(range, bytes.as_ptr().cast(), 12),
                201,
                "no context is current"
            );
            let mut context = 0;
            assert_eq!(
                (
                    cuDevicePrimaryCtxRetain(&mut context, 0),
                    cuCtxSetCurrent(context)
                ),
                (0, 0)
            );
            assert_eq!(cuMemsetD8_v2(range, 5, 4), 0);
            assert_eq!(cuMemsetD32_v2(range + 4, 0x0403_0201, 2), 0);
            assert_eq!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), range, 12), 0);
            assert_eq!(bytes, [5, 5, 5, 5, 1, 2, 3, 4, 1, 2, 3, 4]);
        }
    });
}

#[test]
fn thousands_of_handles_need_few_descriptors() {
    in_child("thousands_of_handles_need_few_descriptors", "1x16GiB", || {
        let count = 4000;
        let range = reserve(count * G, 0);
        for at in 0..count {
            let (code, handle) = create(0, G);
            assert_eq!((code, map(range + at * G, G, handle)), (0, 0));
        }
        assert_eq!(access(range, count * G, 0, 3), 0);
        assert_eq!(write(range + 3999 * G, &[7]), 0);
        assert_eq!(unmap(range, count * G), 0);
    });
}
