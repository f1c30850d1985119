//! Pools, advice and prefetching, and attributes of streams.

mod common;

use std::ffi::c_void;

use common::{MIB, in_child, ok};
use mgb_abi::launch::LaunchAttributeValue;
use mgb_abi::location::MemLocation;
use mgb_abi::pool::{MemAccessDesc, MemPoolProps};
use softgpu::cudart::managed::*;
use softgpu::cudart::memory::{cudaFree, cudaMalloc, cudaMallocManaged};
use softgpu::cudart::pool::*;
use softgpu::cudart::stream::cudaStreamSynchronize;
use softgpu::cudart::stream_attributes::*;

const DEVICES: &str = "2x64MiB";
const INVALID_VALUE: i32 = 1;

fn attribute(pool: usize, number: u32) -> u64 {
    let mut value = 0u64;
    // SAFETY: an out pointer of our own.
    ok(unsafe { cudaMemPoolGetAttribute(pool, number, (&raw mut value).cast()) });
    value
}

const HOST: MemLocation = MemLocation::host();

#[test]
fn pools_count_what_is_taken_from_them() {
    in_child("pools_count_what_is_taken_from_them", DEVICES, || {
        let (mut pool, mut default, mut current) = (0, 0, 0);
        let mut pointers = [std::ptr::null_mut(); 3];
        // SAFETY: out pointers of our own.
        unsafe {
            ok(cudaDeviceGetDefaultMemPool(&mut default, 0));
            assert_eq!(cudaMemPoolDestroy(default), INVALID_VALUE);
            assert_eq!(cudaMemPoolCreate(&mut pool, std::ptr::null()), INVALID_VALUE);
            ok(cudaMemPoolCreate(&mut pool, &MemPoolProps::of_device(0)));
            ok(cudaMallocFromPoolAsync(&mut pointers[0], MIB, pool, 0));
            ok(cudaMallocAsync(&mut pointers[1], 1000, 0));
            assert_eq!((attribute(pool, 7), attribute(default, 7)), (MIB as u64, 1000));
            ok(cudaDeviceSetMemPool(0, pool));
            assert_eq!(cudaDeviceSetMemPool(1, pool), INVALID_VALUE);
            ok(cudaDeviceGetMemPool(&mut current, 0));
            assert_eq!(current, pool);
            ok(cudaMallocAsync(&mut pointers[2], 24, 0));
            assert_eq!(attribute(pool, 7), MIB as u64 + 24);
            ok(cudaFreeAsync(pointers[0], 0));
            ok(cudaFreeAsync(pointers[1], 0));
            ok(cudaFree(pointers[2]));
            ok(cudaStreamSynchronize(0));
            assert_eq!((attribute(pool, 7), attribute(default, 7)), (0, 0));
            assert_eq!(attribute(pool, 8), MIB as u64 + 24);
            let zero = 0u64;
            ok(cudaMemPoolSetAttribute(pool, 8, (&raw const zero).cast()));
            assert_eq!(attribute(pool, 8), 0);
            let threshold = u64::MAX;
            ok(cudaMemPoolSetAttribute(pool, 4, (&raw const threshold).cast()));
            assert_eq!(attribute(pool, 4), u64::MAX);
            assert_eq!(
                cudaMemPoolSetAttribute(pool, 7, (&raw const zero).cast()),
                INVALID_VALUE
            );
            let mut flags = 9;
            ok(cudaMemPoolGetAccess(&mut flags, pool, &MemLocation::device(1)));
            assert_eq!(flags, 0);
            let mut access = MemAccessDesc {
                location: MemLocation::device(1),
                flags: 3,
            };
            ok(cudaMemPoolSetAccess(pool, &access, 1));
            ok(cudaMemPoolGetAccess(&mut flags, pool, &MemLocation::device(1)));
            assert_eq!(flags, 3);
            access = MemAccessDesc {
                location: MemLocation::device(0),
                flags: 0,
            };
            assert_eq!(cudaMemPoolSetAccess(pool, &access, 1), INVALID_VALUE);
            ok(cudaMemPoolTrimTo(pool, 0));
            ok(cudaMemPoolDestroy(pool));
            assert_eq!(cudaMemPoolTrimTo(pool, 0), INVALID_VALUE);
            ok(cudaDeviceGetMemPool(&mut current, 0));
            assert_eq!(current, default);
        }
    });
}

fn attribute_of(number: u32, pointer: *mut c_void, count: usize) -> i32 {
    let mut value = 0i32;
    // SAFETY: an out pointer of our own.
    ok(unsafe { cudaMemRangeGetAttribute((&raw mut value).cast(), 4, number, pointer, count) });
    value
}

#[test]
fn advice_is_checked_and_told_again() {
    in_child("advice_is_checked_and_told_again", DEVICES, || {
        let (mut managed, mut plain) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: out pointers of our own; managed memory is the host's as well.
        unsafe {
            ok(cudaMallocManaged(&mut managed, MIB, 1));
            ok(cudaMalloc(&mut plain, MIB));
            let half = managed.byte_add(MIB / 2);
            ok(cudaMemAdvise(managed, MIB, 1, MemLocation::device(0)));
            ok(cudaMemAdvise(half, MIB / 2, 2, MemLocation::device(0)));
            ok(cudaMemAdvise(managed, MIB, 3, MemLocation::device(1)));
            ok(cudaMemAdvise(managed, MIB, 5, HOST));
            ok(cudaMemAdvise(managed, MIB, 5, MemLocation::device(1)));
            assert_eq!(
                (attribute_of(1, managed, MIB), attribute_of(1, managed, 4)),
                (0, 1)
            );
            assert_eq!(
                (attribute_of(2, managed, MIB), attribute_of(4, managed, MIB)),
                (1, -2)
            );
            let mut users = [0i32; 4];
            ok(cudaMemRangeGetAttribute(
                users.as_mut_ptr().cast(),
                16,
                3,
                managed,
                MIB,
            ));
            assert_eq!(users, [1, -1, -2, -2]);
            ok(cudaMemPrefetchAsync(managed, MIB, MemLocation::device(0), 0, 0));
            assert_eq!(attribute_of(4, managed, MIB), 0);
            ok(cudaMemPrefetchAsync(half, 100, HOST, 0, 0));
            assert_eq!(
                (attribute_of(4, half, 100), attribute_of(4, managed, MIB)),
                (-1, -2)
            );

            assert_eq!(cudaMemPrefetchAsync(managed, MIB + 1, HOST, 0, 0), INVALID_VALUE);
            assert_eq!(cudaMemPrefetchAsync(managed, 0, HOST, 0, 0), INVALID_VALUE);
            assert_eq!(cudaMemPrefetchAsync(managed, MIB, HOST, 1, 0), INVALID_VALUE);
            assert_eq!(
                cudaMemPrefetchAsync(managed, MIB, MemLocation::device(2), 0, 0),
                101
            );
            assert_eq!(cudaMemPrefetchAsync(plain, MIB, HOST, 0, 0), INVALID_VALUE);
            assert_eq!(
                cudaMemAdvise(plain, MIB, 1, MemLocation::device(0)),
                INVALID_VALUE
            );
            assert_eq!(
                cudaMemAdvise(managed, MIB, 7, MemLocation::device(0)),
                INVALID_VALUE
            );
            ok(cudaStreamAttachMemAsync(0, managed, 0, 4));
            assert_eq!(cudaStreamAttachMemAsync(0, half, 0, 4), INVALID_VALUE);

            // What is allocated there next knows nothing of it.
            ok(cudaFree(managed));
            ok(cudaMallocManaged(&mut managed, MIB, 1));
            assert_eq!(attribute_of(1, managed, MIB), 0);
            assert_eq!(attribute_of(2, managed, MIB), -2);
        }
    });
}

#[test]
fn streams_keep_their_attributes() {
    in_child("streams_keep_their_attributes", DEVICES, || {
        let mut value = LaunchAttributeValue::default();
        // SAFETY: out pointers of our own.
        unsafe {
            ok(cudaStreamGetAttribute(0, 3, &mut value));
            assert_eq!(value.0[0], 1);
            value.0[0] = 2;
            ok(cudaStreamSetAttribute(0, 3, &value));
            ok(cudaStreamCopyAttributes(2, 0));
            value.0[0] = 9;
            ok(cudaStreamGetAttribute(2, 3, &mut value));
            assert_eq!(value.0[0], 2);
            assert_eq!(cudaStreamGetAttribute(0, 4, &mut value), INVALID_VALUE);
            assert_eq!(cudaStreamSetAttribute(0, 3, std::ptr::null()), INVALID_VALUE);
        }
    });
}
