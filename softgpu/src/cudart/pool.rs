//! Allocation in stream order, and the pools it takes from.

use std::ffi::{c_int, c_void};

use mgb_abi::location::MemLocation;
use mgb_abi::pool::*;

use super::{put, runtime};
use crate::device::{current, resolve};
use crate::driver::pool as driver;
use crate::driver_front::{self, Front};
use crate::error::{Error, Result};
use crate::memory::pool;

/// Allocates in a stream's turn. `by_front` has a front do it.
fn allocate(
    pointer: *mut *mut c_void,
    size: usize,
    pool: Option<usize>,
    handle: usize,
    by_front: impl FnOnce(&Front, *mut usize) -> Result,
) -> Result {
    put!(pointer, std::ptr::null_mut());
    let (gpu, stream) = resolve::stream(handle)?;
    let address = match driver_front::front() {
        Some(front) => {
            let mut address = 0;
            by_front(front, &mut address)?;
            address
        }
        None => driver::allocate(gpu, &stream, size, pool)?,
    };
    put!(pointer, address as *mut c_void);
    Ok(())
}

/// The device whose pool is meant.
fn owner(location: *const MemLocation) -> Result<usize> {
    driver::device_at(location)
        .map(|gpu| gpu.ordinal)
        .map_err(|_| Error::INVALID_VALUE)
}

fn choose(ordinal: usize, chosen: usize) -> Result {
    match driver_front::front() {
        Some(front) => front.cuDeviceSetMemPool(ordinal as c_int, chosen),
        None => pool::choose(ordinal, chosen),
    }
}

runtime! {
    fn cudaMallocAsync(pointer: *mut *mut c_void, size: usize, stream: usize) {
        let by_front = |front: &Front, address| front.cuMemAllocAsync(address, size, stream);
        allocate(pointer, size, None, stream, by_front)
    }

    fn cudaMallocFromPoolAsync(pointer: *mut *mut c_void, size: usize, pool: usize, stream: usize) {
        let by_front = |front: &Front, address| front.cuMemAllocFromPoolAsync(address, size, pool, stream);
        allocate(pointer, size, Some(pool), stream, by_front)
    }

    fn cudaFreeAsync(pointer: *mut c_void, handle: usize) {
        let (gpu, stream) = resolve::stream(handle)?;
        match driver_front::front() {
            Some(front) => front.cuMemFreeAsync(pointer as usize, handle),
            None => driver::free(gpu, &stream, pointer as usize),
        }
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
        choose(owner(&MemLocation::device(device))?, chosen)
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
        choose(owner(location)?, chosen)
    }

    fn cudaMemPoolCreate(to: *mut usize, properties: *const MemPoolProps) {
        current::gpu()?;
        // SAFETY: `properties` is null or valid for reads: CUDA's contract of the function.
        let wanted = unsafe { properties.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        if to.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // The runtime uses the pool's device from here on.
        driver::gpu_of(wanted)?;
        let mut made = 0;
        match driver_front::front() {
            Some(front) => front.cuMemPoolCreate(&mut made, properties)?,
            None => made = driver::create(properties)?,
        }
        put!(to, made);
        Ok(())
    }

    fn cudaMemPoolDestroy(handle: usize) {
        match driver_front::front() {
            Some(front) => front.cuMemPoolDestroy(handle),
            None => pool::destroy(handle),
        }
    }

    fn cudaMemPoolTrimTo(handle: usize, keep: usize) {
        match driver_front::front() {
            Some(front) => front.cuMemPoolTrimTo(handle, keep),
            None => driver::trim(handle),
        }
    }

    fn cudaMemPoolSetAttribute(handle: usize, attribute: u32, value: *const c_void) {
        match driver_front::front() {
            Some(front) => front.cuMemPoolSetAttribute(handle, attribute, value),
            None => driver::set_attribute(handle, attribute, value),
        }
    }

    fn cudaMemPoolGetAttribute(handle: usize, attribute: u32, value: *mut c_void) {
        match driver_front::front() {
            Some(front) => front.cuMemPoolGetAttribute(handle, attribute, value),
            None => driver::attribute(handle, attribute, value),
        }
    }

    fn cudaMemPoolSetAccess(handle: usize, list: *const MemAccessDesc, count: usize) {
        match driver_front::front() {
            Some(front) => front.cuMemPoolSetAccess(handle, list, count),
            None => driver::set_access(handle, list, count),
        }
    }

    fn cudaMemPoolGetAccess(flags: *mut c_int, handle: usize, location: *const MemLocation) {
        put!(flags, driver::access(handle, location)?);
        Ok(())
    }
}
