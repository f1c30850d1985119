//! Allocation in stream order, and the pools it takes from. Memory is there at once and goes in the stream's
//! turn, which is one of the orders that CUDA allows.

use std::ffi::{c_int, c_void};

use mgb_abi::location::{LOCATION_DEVICE, MemLocation};
use mgb_abi::pool::*;

use super::{put, runtime};
use crate::address::graph_memory::GraphMemory;
use crate::address::{self, AddressKind, locate};
use crate::device::{Gpu, current, node, resolve};
use crate::error::{Error, Result};
use crate::graph::{Kind, capture};
use crate::memory::pool;

/// The device whose memory the properties ask for.
///
/// # Errors
/// `INVALID_VALUE` for other memory than a device's, `NOT_SUPPORTED` for memory to share.
pub fn gpu_of(props: &MemPoolProps) -> Result<&'static Gpu> {
    if props.alloc_type != ALLOCATION_PINNED || props.location.kind != LOCATION_DEVICE {
        return Err(Error::INVALID_VALUE);
    }
    if props.handle_types != 0 {
        return Err(Error::NOT_SUPPORTED);
    }
    let gpu = node()?.gpu(props.location.id).map_err(|_| Error::INVALID_VALUE)?;
    gpu.enter()?;
    Ok(gpu)
}

fn allocate(pointer: *mut *mut c_void, size: usize, pool: Option<usize>, stream: usize) -> Result {
    put!(pointer, std::ptr::null_mut());
    let (gpu, stream) = resolve::stream(stream)?;
    let pool = pool.unwrap_or_else(|| pool::of(gpu.ordinal));
    let mut kept = 0;
    let captured = capture::keep(&stream, || {
        let gpu = node()?.gpu(pool::with(pool, |pool| pool.ordinal)? as c_int)?;
        let memory = GraphMemory::new(gpu, size)?;
        kept = memory.address;
        Ok(Kind::Alloc(memory))
    })?;
    let address = if captured {
        kept
    } else {
        address::allocate_from(pool, size)?
    };
    put!(pointer, address as *mut c_void);
    Ok(())
}

/// The device that a location names.
fn device_at(location: *const MemLocation) -> Result<&'static Gpu> {
    // SAFETY: `location` is null or valid for reads: CUDA's contract of the functions that pass it.
    let location = unsafe { location.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if location.kind != LOCATION_DEVICE {
        return Err(Error::INVALID_VALUE);
    }
    node()?.gpu(location.id)
}

/// The device whose pool is meant.
fn owner(location: *const MemLocation) -> Result<usize> {
    device_at(location)
        .map(|gpu| gpu.ordinal)
        .map_err(|_| Error::INVALID_VALUE)
}

runtime! {
    fn cudaMallocAsync(pointer: *mut *mut c_void, size: usize, stream: usize) {
        allocate(pointer, size, None, stream)
    }

    fn cudaMallocFromPoolAsync(pointer: *mut *mut c_void, size: usize, pool: usize, stream: usize) {
        allocate(pointer, size, Some(pool), stream)
    }

    fn cudaFreeAsync(pointer: *mut c_void, stream: usize) {
        let address = pointer as usize;
        let (gpu, stream) = resolve::stream(stream)?;
        if address == 0 {
            return Ok(());
        }
        if !matches!(locate(address), AddressKind::Device { base, .. } if base == address) {
            return Err(Error::INVALID_VALUE);
        }
        if capture::keep(&stream, || Ok(Kind::Free(address)))? {
            return Ok(());
        }
        gpu.streams.submit(&stream, move |_| {
            if let Err(error) = address::free(address) {
                gpu.fail(error);
            }
        });
        Ok(())
    }

    fn cudaDeviceGetDefaultMemPool(to: *mut usize, device: c_int) {
        put!(to, pool::default_of(owner(&MemLocation::device(device))?));
        Ok(())
    }

    fn cudaDeviceGetMemPool(to: *mut usize, device: c_int) {
        put!(to, pool::of(owner(&MemLocation::device(device))?));
        Ok(())
    }

    fn cudaDeviceSetMemPool(device: c_int, chosen: usize) {
        pool::choose(owner(&MemLocation::device(device))?, chosen)
    }

    fn cudaMemGetDefaultMemPool(to: *mut usize, location: *const MemLocation, kind: c_int) {
        if kind != ALLOCATION_PINNED {
            return Err(Error::INVALID_VALUE);
        }
        put!(to, pool::default_of(owner(location)?));
        Ok(())
    }

    fn cudaMemGetMemPool(to: *mut usize, location: *const MemLocation, kind: c_int) {
        if kind != ALLOCATION_PINNED {
            return Err(Error::INVALID_VALUE);
        }
        put!(to, pool::of(owner(location)?));
        Ok(())
    }

    fn cudaMemSetMemPool(location: *const MemLocation, kind: c_int, chosen: usize) {
        if kind != ALLOCATION_PINNED {
            return Err(Error::INVALID_VALUE);
        }
        pool::choose(owner(location)?, chosen)
    }

    fn cudaMemPoolCreate(to: *mut usize, properties: *const MemPoolProps) {
        current::gpu()?;
        // SAFETY: `properties` is null or valid for reads: CUDA's contract of the function.
        let properties = unsafe { properties.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        if to.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(to, pool::create(gpu_of(properties)?.ordinal, properties.max_size as u64));
        Ok(())
    }

    fn cudaMemPoolDestroy(handle: usize) {
        pool::destroy(handle)
    }

    fn cudaMemPoolTrimTo(handle: usize, _keep: usize) {
        // Nothing is kept that is not in use.
        pool::with(handle, |_| ())
    }

    fn cudaMemPoolSetAttribute(handle: usize, attribute: u32, value: *const c_void) {
        if value.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: not null; switches are ints, the others 64-bit values.
        let number = unsafe {
            match attribute {
                POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES..=POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                    u64::from(*value.cast::<c_int>() != 0)
                }
                _ => *value.cast::<u64>(),
            }
        };
        pool::with(handle, |pool| match (attribute, number) {
            (POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES..=POOL_RELEASE_THRESHOLD, _) => {
                pool.settings[attribute as usize - 1] = number;
                Ok(())
            }
            // The highest figures can be reset, and nothing else.
            (POOL_RESERVED_HIGH, 0) => {
                pool.reserved.high = pool.reserved.now;
                Ok(())
            }
            (POOL_USED_HIGH, 0) => {
                pool.used.high = pool.used.now;
                Ok(())
            }
            _ => Err(Error::INVALID_VALUE),
        })?
    }

    fn cudaMemPoolGetAttribute(handle: usize, attribute: u32, value: *mut c_void) {
        let found = pool::with(handle, |pool| match attribute {
            POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES..=POOL_RELEASE_THRESHOLD => {
                Ok(pool.settings[attribute as usize - 1])
            }
            POOL_RESERVED_CURRENT => Ok(pool.reserved.now),
            POOL_RESERVED_HIGH => Ok(pool.reserved.high),
            POOL_USED_CURRENT => Ok(pool.used.now),
            POOL_USED_HIGH => Ok(pool.used.high),
            _ => Err(Error::INVALID_VALUE),
        })??;
        if attribute <= POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES {
            put!(value.cast::<c_int>(), found as c_int);
        } else {
            put!(value.cast::<u64>(), found);
        }
        Ok(())
    }

    fn cudaMemPoolSetAccess(handle: usize, list: *const MemAccessDesc, count: usize) {
        if list.is_null() && count > 0 {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: `list` has `count` elements: CUDA's contract of the function.
        for access in unsafe { crate::image::slice(list, count as u32) } {
            let ordinal = device_at(&access.location)?.ordinal;
            let on = match access.flags {
                ACCESS_NONE => false,
                ACCESS_READ_WRITE => true,
                _ => return Err(Error::INVALID_VALUE),
            };
            pool::with(handle, |pool| match (on, pool.ordinal == ordinal) {
                // The pool's own device always has access.
                (false, true) => Err(Error::INVALID_VALUE),
                (false, false) => {
                    pool.readers &= !(1 << ordinal);
                    Ok(())
                }
                (true, _) => {
                    pool.readers |= 1 << ordinal;
                    Ok(())
                }
            })??;
        }
        pool::with(handle, |_| ())
    }

    fn cudaMemPoolGetAccess(flags: *mut c_int, handle: usize, location: *const MemLocation) {
        let ordinal = device_at(location)?.ordinal;
        let on = pool::with(handle, |pool| pool.readers >> ordinal & 1 == 1)?;
        put!(flags, if on { ACCESS_READ_WRITE } else { ACCESS_NONE });
        Ok(())
    }
}
