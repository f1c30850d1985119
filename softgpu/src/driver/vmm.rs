//! Virtual memory management. None of it needs a context.

use std::ffi::{c_int, c_uint, c_ulonglong};

use super::{driver, gpu};
use crate::cudart::put;
use crate::device::node;
use crate::error::{Error, Result};
use crate::memory::vmm::{self, Access, Found, GRANULE, Placement};
use crate::state;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// `CU_MEM_LOCATION_TYPE_DEVICE` is the one that softgpu has.
    pub kind: c_int,
    /// Device ordinal.
    pub id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocationProp {
    /// `CU_MEM_ALLOCATION_TYPE_PINNED` is the one that softgpu has.
    pub kind: c_int,
    /// Handles to share; none are to be had.
    pub handle_types: c_int,
    /// Where.
    pub location: Location,
    /// For Windows.
    pub windows: usize,
    /// Compression, RDMA, usage: not looked at.
    pub flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AccessDesc {
    /// Who.
    pub location: Location,
    /// `CUmemAccess_flags`.
    pub flags: c_int,
}

const PINNED: c_int = 1;
const DEVICE: c_int = 1;
const READ: c_int = 1;
const READ_WRITE: c_int = 3;

fn ordinal(location: &Location) -> Result<usize> {
    if location.kind != DEVICE {
        return Err(Error::INVALID_VALUE);
    }
    Ok(gpu(location.id)?.ordinal)
}

/// Where a property asks memory to be.
///
/// # Safety
/// `prop` is null or points to one.
unsafe fn placement(prop: *const AllocationProp) -> Result<Placement> {
    // SAFETY: the caller's promise.
    let prop = unsafe { prop.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if prop.kind != PINNED {
        return Err(Error::INVALID_VALUE);
    }
    if prop.handle_types != 0 {
        return Err(Error::NOT_SUPPORTED);
    }
    let ordinal = ordinal(&prop.location)?;
    Ok(Placement {
        ordinal,
        index: gpu(ordinal as c_int)?.index,
    })
}

driver! {
    fn cuMemGetAllocationGranularity(granularity: *mut usize, prop: *const AllocationProp, _option: c_int) {
        // SAFETY: null or a property, as CUDA has it.
        unsafe { placement(prop) }?;
        put!(granularity, GRANULE);
        Ok(())
    }

    fn cuMemAddressReserve(pointer: *mut usize, size: usize, alignment: usize, address: usize, flags: c_ulonglong) {
        node()?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        put!(pointer, vmm::with(|vmm| vmm.reserve(size, alignment, address))?);
        Ok(())
    }

    fn cuMemAddressFree(pointer: usize, size: usize) {
        vmm::with(|vmm| vmm.unreserve(pointer, size))
    }

    fn cuMemCreate(handle: *mut u64, size: usize, prop: *const AllocationProp, flags: c_ulonglong) {
        // SAFETY: null or a property, as CUDA has it.
        let placement = unsafe { placement(prop) }?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let state = state::shared()?;
        put!(handle, vmm::with(|vmm| vmm.create(state, placement, size))?);
        Ok(())
    }

    fn cuMemRelease(handle: u64) {
        let state = state::shared()?;
        vmm::with(|vmm| vmm.release(state, handle))
    }

    fn cuMemRetainAllocationHandle(handle: *mut u64, address: usize) {
        put!(handle, vmm::with(|vmm| vmm.retain(address))?);
        Ok(())
    }

    fn cuMemGetAllocationPropertiesFromHandle(prop: *mut AllocationProp, handle: u64) {
        let placement = vmm::with(|vmm| vmm.device(handle))?;
        let location = Location { kind: DEVICE, id: placement.ordinal as c_int };
        put!(prop, AllocationProp { kind: PINNED, handle_types: 0, location, windows: 0, flags: [0; 8] });
        Ok(())
    }

    fn cuMemMap(pointer: usize, size: usize, offset: usize, handle: u64, flags: c_ulonglong) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        vmm::with(|vmm| vmm.map(pointer, size, offset, handle))
    }

    fn cuMemUnmap(pointer: usize, size: usize) {
        let state = state::shared()?;
        vmm::with(|vmm| vmm.unmap(state, pointer, size))
    }

    fn cuMemSetAccess(pointer: usize, size: usize, descriptions: *const AccessDesc, count: usize) {
        // SAFETY: as many descriptions as the caller says.
        let descriptions = unsafe { crate::image::slice(descriptions, count as c_uint) };
        if descriptions.is_empty() {
            return Err(Error::INVALID_VALUE);
        }
        for description in descriptions {
            let (read, write) = match description.flags {
                0 => (false, false),
                READ => (true, false),
                READ_WRITE => (true, true),
                _ => return Err(Error::INVALID_VALUE),
            };
            let ordinal = ordinal(&description.location)?;
            vmm::with(|vmm| vmm.set_access(pointer, size, ordinal, read, write))?;
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: *mut c_ulonglong, location: *const Location, pointer: usize) {
        // SAFETY: null or a location, as CUDA has it.
        let ordinal = ordinal(unsafe { location.as_ref() }.ok_or(Error::INVALID_VALUE)?)?;
        let Some(Found::Mapped { access: Access { read, write }, .. }) = vmm::with(|vmm| vmm.find(pointer)) else {
            return Err(Error::INVALID_VALUE);
        };
        let has = |mask: u32| mask >> ordinal & 1 == 1;
        put!(flags, if has(write) { READ_WRITE } else if has(read) { READ } else { 0 } as c_ulonglong);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<AllocationProp>(), 32);
        assert_eq!(size_of::<AccessDesc>(), 12);
    }
}
