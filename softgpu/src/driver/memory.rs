//! Memory of contexts.

use std::ffi::c_uint;

use mgb_abi::managed::{ATTACH_GLOBAL, ATTACH_HOST};

use super::{current, driver};
use crate::address::{self, AddressKind, locate};
use crate::device::{Gpu, current as thread, node};
use crate::entry::put;
use crate::error::{Error, Result};
use crate::graph::capture;
use crate::memory::heap::AllocationUse;

/// Rows of pitched memory start at multiples of this.
const PITCH: usize = 512;

/// The bytes from row to row of pitched memory, and the bytes of all rows.
///
/// # Errors
/// `MEMORY_ALLOCATION` for more than there are addresses.
pub fn pitched(width: usize, rows: usize) -> Result<(usize, usize)> {
    let pitch = width
        .checked_next_multiple_of(PITCH)
        .ok_or(Error::MEMORY_ALLOCATION)?;
    let size = pitch.checked_mul(rows).ok_or(Error::MEMORY_ALLOCATION)?;
    Ok((pitch, size))
}

/// Waits for all devices' work, which may use what is to be freed, then frees it.
///
/// # Errors
/// `INVALID_VALUE` if no allocation starts there; the error that the thread's context is stuck in.
pub fn free(address: usize) -> Result {
    for gpu in node()?.gpus().iter().filter(|gpu| gpu.is_active()) {
        gpu.streams.finish();
    }
    let freed = address::free(address);
    if let Some(gpu) = thread::context() {
        gpu.check()?;
    }
    freed
}

/// What the functions that allocate begin with.
fn may_allocate(size: usize) -> Result<&'static Gpu> {
    let gpu = current()?;
    if size == 0 {
        return Err(Error::INVALID_VALUE);
    }
    capture::forbid()?;
    Ok(gpu)
}

driver! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let (left, all) = current()?.memory();
        for (to, value) in [(free, left), (total, all)] {
            if !to.is_null() {
                put!(to, value as usize);
            }
        }
        Ok(())
    }

    fn cuMemAlloc_v2(pointer: *mut usize, size: usize) {
        put!(pointer, address::allocate(may_allocate(size)?, size, AllocationUse::Plain)?);
        Ok(())
    }

    fn cuMemAllocPitch_v2(pointer: *mut usize, pitch: *mut usize, width: usize, height: usize, element: c_uint) {
        if !matches!(element, 4 | 8 | 16) {
            return Err(Error::INVALID_VALUE);
        }
        let (row, size) = pitched(width, height)?;
        let gpu = may_allocate(size)?;
        put!(pitch, row);
        put!(pointer, address::allocate(gpu, size, AllocationUse::Plain)?);
        Ok(())
    }

    fn cuMemAllocManaged(pointer: *mut usize, size: usize, flags: c_uint) {
        // Attached to all, or to the host; none of it can be attached to anything.
        if !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST) {
            return Err(Error::INVALID_VALUE);
        }
        put!(pointer, address::allocate(may_allocate(size)?, size, AllocationUse::Managed)?);
        Ok(())
    }

    fn cuMemFree_v2(pointer: usize) {
        current()?;
        if pointer == 0 {
            return Ok(());
        }
        capture::forbid()?;
        free(pointer)
    }

    fn cuMemGetAddressRange_v2(base: *mut usize, size: *mut usize, pointer: usize) {
        current()?;
        let (start, length) = match locate(pointer) {
            AddressKind::Device { base, size, .. } | AddressKind::Managed { base, size, .. } => (base, size),
            _ => return Err(Error::NOT_FOUND),
        };
        if !base.is_null() {
            put!(base, start);
        }
        if !size.is_null() {
            put!(size, length);
        }
        Ok(())
    }

    fn cuPointerGetAttribute(value: *mut c_uint, attribute: c_uint, pointer: usize) {
        let place = locate(pointer);
        let ordinal = match place {
            AddressKind::Device { ordinal, .. } | AddressKind::Managed { ordinal, .. } => ordinal,
            _ => return Err(Error::INVALID_VALUE),
        };
        match attribute {
            // Memory type: device.
            2 => put!(value, 2),
            // Device ordinal.
            9 => put!(value, ordinal as c_uint),
            // Managed.
            8 => put!(value, c_uint::from(matches!(place, AddressKind::Managed { .. }))),
            _ => return Err(Error::NOT_SUPPORTED),
        }
        Ok(())
    }
}
