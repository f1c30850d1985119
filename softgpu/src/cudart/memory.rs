//! Device memory: allocating, freeing, asking about it.

use std::ffi::{c_int, c_uint, c_void};

use mgb_abi::copy3d::{CudaExtent, PitchedPtr};
use mgb_abi::location::INVALID_DEVICE_ID;
use mgb_abi::managed::{ATTACH_GLOBAL, ATTACH_HOST};
use mgb_abi::pointer::{MEMORY_DEVICE, MEMORY_HOST, MEMORY_MANAGED, MEMORY_UNREGISTERED, PointerAttributes};

use super::{peer, put, runtime};
use crate::address::{self, AddressKind, locate};
use crate::device::current;
use crate::driver::{self, memory::pitched};
use crate::driver_front::{self, Front};
use crate::error::{Error, Result};
use crate::graph::capture;
use crate::memory::heap::AllocationUse;

/// Bytes of the largest access to pitched memory: every allowed one gives the same pitch.
const ELEMENT: c_uint = 16;

/// Allocates for a program; zero bytes are address zero. `by_front` has a front do it.
fn allocate(
    size: usize,
    purpose: AllocationUse,
    by_front: impl FnOnce(&Front, *mut usize) -> Result,
) -> Result<*mut c_void> {
    capture::forbid()?;
    let gpu = current::active()?;
    let address = match driver_front::front() {
        Some(front) if size != 0 => {
            let mut address = 0;
            by_front(front, &mut address)?;
            address
        }
        _ => address::allocate(gpu, size, purpose)?,
    };
    Ok(address as *mut c_void)
}

/// Allocates rows of `width` bytes, `size` bytes in all.
fn allocate_rows(size: usize, width: usize, rows: usize) -> Result<*mut c_void> {
    allocate(size, AllocationUse::Plain, |front, address| {
        // The same pitch, from the same function.
        front.cuMemAllocPitch(address, &mut 0, width, rows, ELEMENT)
    })
}

/// Waits for all devices' work, which may use what is to be freed, then frees it.
fn free(address: usize) -> Result {
    current::active()?;
    if address == 0 {
        return Ok(());
    }
    capture::forbid()?;
    match driver_front::front() {
        Some(front) => front.cuMemFree(address),
        None => driver::memory::free(address),
    }
}

runtime! {
    fn cudaMalloc(pointer: *mut *mut c_void, size: usize) {
        put!(pointer, std::ptr::null_mut());
        put!(pointer, allocate(size, AllocationUse::Plain, |front, address| front.cuMemAlloc(address, size))?);
        Ok(())
    }

    fn cudaFree(pointer: *mut c_void) {
        free(pointer as usize)
    }

    fn cudaMallocPitch(pointer: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) {
        put!(pointer, std::ptr::null_mut());
        let (row, size) = pitched(width, height)?;
        put!(pitch, row);
        put!(pointer, allocate_rows(size, width, height)?);
        Ok(())
    }

    fn cudaMalloc3D(pointer: *mut PitchedPtr, extent: CudaExtent) {
        let rows = extent.height.checked_mul(extent.depth).ok_or(Error::MEMORY_ALLOCATION)?;
        let (row, size) = pitched(extent.width, rows)?;
        let ptr = allocate_rows(size, extent.width, rows)?;
        put!(pointer, PitchedPtr { ptr, pitch: row, xsize: extent.width, ysize: extent.height });
        Ok(())
    }

    fn cudaMallocManaged(pointer: *mut *mut c_void, size: usize, flags: c_uint) {
        put!(pointer, std::ptr::null_mut());
        // Attached to all, or to the host; none of it can be attached to anything.
        if size != 0 && !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST) {
            return Err(Error::INVALID_VALUE);
        }
        if size > 0 {
            let by_front = |front: &Front, address| front.cuMemAllocManaged(address, size, flags);
            put!(pointer, allocate(size, AllocationUse::Managed, by_front)?);
        }
        Ok(())
    }

    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) {
        let gpu = current::active()?;
        let (mut left, mut all) = (0, 0);
        match driver_front::front() {
            Some(front) => front.cuMemGetInfo(&mut left, &mut all)?,
            None => {
                let (free, total) = gpu.memory();
                (left, all) = (free as usize, total as usize);
            }
        }
        // Who wants one of them only passes null for the other.
        for (to, value) in [(free, left), (total, all)] {
            if !to.is_null() {
                put!(to, value);
            }
        }
        Ok(())
    }

    fn cudaPointerGetAttributes(attributes: *mut PointerAttributes, pointer: *const c_void) {
        let device = current::active()?.ordinal as c_int;
        let (own, none) = (pointer.cast_mut(), std::ptr::null_mut());
        let (kind, device, device_pointer, host_pointer) = match locate(pointer as usize) {
            AddressKind::Device { ordinal, .. } if !peer::reaches(device as usize, ordinal) => {
                (MEMORY_DEVICE, ordinal as c_int, none, none)
            }
            AddressKind::Device { ordinal, .. } => (MEMORY_DEVICE, ordinal as c_int, own, none),
            AddressKind::Managed { ordinal, .. } => (MEMORY_MANAGED, ordinal as c_int, own, own),
            AddressKind::Pinned { .. } => (MEMORY_HOST, device, own, own),
            AddressKind::Nothing | AddressKind::Host => (MEMORY_UNREGISTERED, INVALID_DEVICE_ID, none, own),
        };
        put!(attributes, PointerAttributes { kind, device, device_pointer, host_pointer, reserved: [0; 8] });
        Ok(())
    }
}
