//! Device memory: allocating, freeing, asking about it.

use std::ffi::{c_int, c_uint, c_void};

use mgb_abi::copy3d::{Extent, PitchedPtr};
use mgb_abi::location::INVALID_DEVICE_ID;
use mgb_abi::managed::{ATTACH_GLOBAL, ATTACH_HOST};
use mgb_abi::pointer::{MEMORY_DEVICE, MEMORY_HOST, MEMORY_MANAGED, MEMORY_UNREGISTERED, PointerAttributes};

use super::{peer, put, runtime};
use crate::address::{self, AddressKind, locate};
use crate::device::{current, node};
use crate::error::{Error, Result};
use crate::graph::capture;
use crate::memory::heap::Use;

/// Rows of pitched memory start at multiples of this.
const PITCH: usize = 512;

fn allocate(size: usize, purpose: Use) -> Result<*mut c_void> {
    capture::forbid()?;
    Ok(address::allocate(current::active()?, size, purpose)? as *mut c_void)
}

/// Waits for all devices' work, which may use what is to be freed, then frees it.
fn free(address: usize) -> Result {
    current::active()?;
    if address == 0 {
        return Ok(());
    }
    capture::forbid()?;
    for gpu in node()?.gpus().iter().filter(|gpu| gpu.is_active()) {
        gpu.streams.finish();
    }
    let freed = address::free(address);
    current::gpu()?.check()?;
    freed
}

runtime! {
    fn cudaMalloc(pointer: *mut *mut c_void, size: usize) {
        put!(pointer, std::ptr::null_mut());
        put!(pointer, allocate(size, Use::Plain)?);
        Ok(())
    }

    fn cudaFree(pointer: *mut c_void) {
        free(pointer as usize)
    }

    fn cudaMallocPitch(pointer: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) {
        put!(pointer, std::ptr::null_mut());
        let row = width.checked_next_multiple_of(PITCH).ok_or(Error::MEMORY_ALLOCATION)?;
        let size = row.checked_mul(height).ok_or(Error::MEMORY_ALLOCATION)?;
        put!(pitch, row);
        put!(pointer, allocate(size, Use::Plain)?);
        Ok(())
    }

    fn cudaMalloc3D(pointer: *mut PitchedPtr, extent: Extent) {
        let row = extent.width.checked_next_multiple_of(PITCH).ok_or(Error::MEMORY_ALLOCATION)?;
        let rows = extent.height.checked_mul(extent.depth).ok_or(Error::MEMORY_ALLOCATION)?;
        let size = row.checked_mul(rows).ok_or(Error::MEMORY_ALLOCATION)?;
        let ptr = allocate(size, Use::Plain)?;
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
            put!(pointer, allocate(size, Use::Managed)?);
        }
        Ok(())
    }

    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) {
        let (left, all) = current::active()?.memory();
        put!(free, left as usize);
        put!(total, all as usize);
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
