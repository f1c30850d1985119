//! Allocation in stream order, and the pools it takes from. Memory is there at once and goes in the stream's
//! turn, which is one of the orders that CUDA allows.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mgb_abi::graph::{
    GRAPH_MEM_RESERVED_CURRENT, GRAPH_MEM_RESERVED_HIGH, GRAPH_MEM_USED_CURRENT, GRAPH_MEM_USED_HIGH,
};
use mgb_abi::location::{
    LOCATION_DEVICE, LOCATION_HOST, LOCATION_HOST_NUMA, LOCATION_HOST_NUMA_CURRENT, MemLocation,
};
use mgb_abi::pool::*;

use super::{driver, stream};
use crate::address::graph_memory::{self, GraphMemory};
use crate::address::{self, AddressKind, locate};
use crate::device::{Gpu, node};
use crate::entry::put;
use crate::error::{Error, Result};
use crate::graph::{NodeKind, capture};
use crate::memory::pool;
use crate::stream::DeviceStream;

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
    gpu.enter_for_pool()?;
    Ok(gpu)
}

/// Bytes that graphs have on a device: now, or at most so far.
///
/// # Errors
/// `INVALID_DEVICE`; `INVALID_VALUE` for another attribute.
pub fn graph_level(device: c_int, attribute: u32) -> Result<u64> {
    let (current, high) = graph_memory::used(node()?.gpu(device)?.ordinal);
    match attribute {
        GRAPH_MEM_USED_CURRENT | GRAPH_MEM_RESERVED_CURRENT => Ok(current),
        GRAPH_MEM_USED_HIGH | GRAPH_MEM_RESERVED_HIGH => Ok(high),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// Allocates from a pool, or from the pool that the stream's device uses; returns the address.
///
/// # Errors
/// `INVALID_VALUE` for no pool, `MEMORY_ALLOCATION`, those of capturing.
pub fn allocate(gpu: &Gpu, stream: &Arc<DeviceStream>, size: usize, pool: Option<usize>) -> Result<usize> {
    let pool = pool.unwrap_or_else(|| pool::of(gpu.ordinal));
    let mut kept = 0;
    let captured = capture::keep(stream, || {
        let ordinal = pool::with(pool, |pool| pool.ordinal)?;
        if ordinal == pool::HOST {
            return Err(Error::NOT_SUPPORTED);
        }
        let gpu = node()?.gpu(ordinal as c_int)?;
        let memory = GraphMemory::new(gpu, size)?;
        kept = memory.address;
        Ok(NodeKind::Alloc(memory))
    })?;
    if captured {
        Ok(kept)
    } else {
        address::allocate_from(pool, size)
    }
}

/// Frees memory in a stream's turn.
///
/// # Errors
/// `INVALID_VALUE` if no allocation starts there, and those of capturing.
pub fn free(gpu: &'static Gpu, stream: &Arc<DeviceStream>, address: usize) -> Result {
    if address == 0 {
        return Ok(());
    }
    // Memory that the program maps by itself is no allocation.
    let is_allocated = node()?.gpus().iter().any(|gpu| gpu.heap().owns(address));
    let is_device =
        is_allocated && matches!(locate(address), AddressKind::Device { base, .. } if base == address);
    if !is_device && !pool::is_of_host(address) {
        return Err(Error::INVALID_VALUE);
    }
    if capture::keep(stream, || Ok(NodeKind::Free(address)))? {
        return Ok(());
    }
    gpu.streams.submit(stream, move |_| {
        if let Err(error) = address::free(address) {
            gpu.fail(error);
        }
    });
    Ok(())
}

/// Makes a pool; returns its handle.
///
/// # Errors
/// Those of [`gpu_of`].
pub(crate) fn create(properties: *const MemPoolProps) -> Result<usize> {
    // SAFETY: `properties` is null or valid for reads: CUDA's contract of the functions that pass it.
    let properties = unsafe { properties.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if matches!(
        properties.location.kind,
        LOCATION_HOST | LOCATION_HOST_NUMA | LOCATION_HOST_NUMA_CURRENT
    ) && properties.alloc_type == ALLOCATION_PINNED
        && properties.handle_types == 0
    {
        return Ok(pool::create(pool::HOST, properties.max_size as u64));
    }
    Ok(pool::create(
        gpu_of(properties)?.ordinal,
        properties.max_size as u64,
    ))
}

/// Gives back what a pool keeps beyond what is in use: nothing.
///
/// # Errors
/// `INVALID_VALUE` for no pool.
pub fn trim(handle: usize) -> Result {
    pool::with(handle, |_| ())
}

/// Sets an attribute of a pool.
///
/// # Errors
/// `INVALID_VALUE` for no pool, no attribute, or one that cannot be set.
pub(crate) fn set_attribute(handle: usize, attribute: u32, value: *const c_void) -> Result {
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

/// Reads an attribute of a pool.
///
/// # Errors
/// `INVALID_VALUE` for no pool or no attribute.
pub(crate) fn attribute(handle: usize, attribute: u32, value: *mut c_void) -> Result {
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

/// The device whose pool is meant.
///
/// # Errors
/// `INVALID_VALUE`.
pub fn owner(device: c_int) -> Result<usize> {
    device_at(&MemLocation::device(device))
        .map(|gpu| gpu.ordinal)
        .map_err(|_| Error::INVALID_VALUE)
}

/// The device that a location names.
///
/// # Errors
/// `INVALID_VALUE` for no location of a device, `INVALID_DEVICE`.
pub(crate) fn device_at(location: *const MemLocation) -> Result<&'static Gpu> {
    // SAFETY: `location` is null or valid for reads: CUDA's contract of the functions that pass it.
    let location = unsafe { location.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if location.kind != LOCATION_DEVICE {
        return Err(Error::INVALID_VALUE);
    }
    node()?.gpu(location.id)
}

/// Lets devices use what a pool has, or no more.
///
/// # Errors
/// `INVALID_VALUE` for no pool, and for its own device, which always has access; those of [`device_at`].
pub(crate) fn set_access(handle: usize, list: *const MemAccessDesc, count: usize) -> Result {
    if list.is_null() && count > 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: `list` has `count` elements: CUDA's contract of the functions that pass it.
    for access in unsafe { crate::image::slice(list, count as u32) } {
        let ordinal = device_at(&access.location)?.ordinal;
        let on = match access.flags {
            ACCESS_NONE => false,
            ACCESS_READ_WRITE => true,
            _ => return Err(Error::INVALID_VALUE),
        };
        pool::with(handle, |pool| match (on, pool.ordinal == ordinal) {
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

/// What a device may do with what a pool has.
///
/// # Errors
/// `INVALID_VALUE` for no pool; those of [`device_at`].
pub(crate) fn access(handle: usize, location: *const MemLocation) -> Result<c_int> {
    let ordinal = device_at(location)?.ordinal;
    let on = pool::with(handle, |pool| pool.readers >> ordinal & 1 == 1)?;
    Ok(if on { ACCESS_READ_WRITE } else { ACCESS_NONE })
}

driver! {
    fn cuMemAllocAsync(pointer: *mut usize, size: usize, handle: usize) {
        let (gpu, stream) = stream(handle)?;
        put!(pointer, allocate(gpu, &stream, size, None)?);
        Ok(())
    }

    fn cuMemAllocFromPoolAsync(pointer: *mut usize, size: usize, pool: usize, handle: usize) {
        let (gpu, stream) = stream(handle)?;
        put!(pointer, allocate(gpu, &stream, size, Some(pool))?);
        Ok(())
    }

    fn cuMemFreeAsync(pointer: usize, handle: usize) {
        let (gpu, stream) = stream(handle)?;
        free(gpu, &stream, pointer)
    }

    fn cuMemPoolCreate(to: *mut usize, properties: *const MemPoolProps) {
        if to.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(to, create(properties)?);
        Ok(())
    }

    fn cuMemPoolDestroy(handle: usize) {
        pool::destroy(handle)
    }

    fn cuMemPoolTrimTo(handle: usize, _keep: usize) {
        trim(handle)
    }

    fn cuMemPoolSetAttribute(handle: usize, attribute: u32, value: *const c_void) {
        set_attribute(handle, attribute, value)
    }

    fn cuMemPoolGetAttribute(handle: usize, which: u32, value: *mut c_void) {
        attribute(handle, which, value)
    }

    fn cuMemPoolSetAccess(handle: usize, list: *const MemAccessDesc, count: usize) {
        set_access(handle, list, count)
    }

    fn cuMemPoolGetAccess(flags: *mut c_int, handle: usize, location: *const MemLocation) {
        put!(flags, access(handle, location)?);
        Ok(())
    }

    fn cuDeviceGetGraphMemAttribute(device: c_int, attribute: u32, to: *mut u64) {
        put!(to, graph_level(device, attribute)?);
        Ok(())
    }

    fn cuDeviceGraphMemTrim(device: c_int) {
        graph_memory::trim(node()?.gpu(device)?)
    }

    fn cuDeviceGetDefaultMemPool(to: *mut usize, device: c_int) {
        put!(to, pool::default_of(owner(device)?));
        Ok(())
    }

    fn cuDeviceGetMemPool(to: *mut usize, device: c_int) {
        put!(to, pool::of(owner(device)?));
        Ok(())
    }

    fn cuDeviceSetMemPool(device: c_int, chosen: usize) {
        pool::choose(owner(device)?, chosen)
    }
}
