//! Virtual memory management. None of it needs a context.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd};

use mgb_abi::location::{LOCATION_DEVICE, MemLocation};
use mgb_abi::pool::{ACCESS_NONE, ACCESS_READ, ACCESS_READ_WRITE, ALLOCATION_PINNED, MemAccessDesc};
use mgb_abi::vmm::MemAllocationProp;

use super::{driver, gpu};
use crate::device::node;
use crate::entry::put;
use crate::error::{Error, Result};
use crate::memory::vmm::{self, AddressContent, DeviceAccess, GRANULE, MemoryPlacement};
use crate::state;

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const POSIX_FILE: c_int = 1;

fn ordinal(location: &MemLocation) -> Result<usize> {
    if location.kind != LOCATION_DEVICE {
        return Err(Error::INVALID_VALUE);
    }
    Ok(gpu(location.id)?.ordinal)
}

/// Where a property asks memory to be.
///
/// # Safety
/// `prop` is null or points to one.
unsafe fn placement(prop: *const MemAllocationProp) -> Result<MemoryPlacement> {
    // SAFETY: `prop` is null or valid for reads: contract of `placement`.
    let prop = unsafe { prop.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if prop.alloc_type != ALLOCATION_PINNED {
        return Err(Error::INVALID_VALUE);
    }
    if prop.handle_types & !POSIX_FILE != 0 {
        return Err(Error::NOT_SUPPORTED);
    }
    let ordinal = ordinal(&prop.location)?;
    Ok(MemoryPlacement {
        ordinal,
        index: gpu(ordinal as c_int)?.index,
    })
}

driver! {
    fn cuMemGetAllocationGranularity(
        granularity: *mut usize, prop: *const MemAllocationProp, _option: c_int,
    ) {
        // SAFETY: `prop` is null or valid for reads: CUDA's contract of the function.
        unsafe { placement(prop) }?;
        put!(granularity, GRANULE);
        Ok(())
    }

    fn cuMemAddressReserve(
        pointer: *mut usize, size: usize, alignment: usize, address: usize, flags: c_ulonglong,
    ) {
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

    fn cuMemCreate(handle: *mut u64, size: usize, prop: *const MemAllocationProp, flags: c_ulonglong) {
        // SAFETY: `prop` is null or valid for reads: CUDA's contract of the function.
        let placement = unsafe { placement(prop) }?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let state = state::shared()?;
        // SAFETY: as above, and not null.
        let is_shared = unsafe { (*prop).handle_types } != 0;
        put!(handle, vmm::with(|vmm| vmm.create(state, placement, size, is_shared))?);
        Ok(())
    }

    fn cuMemExportToShareableHandle(to: *mut c_int, handle: u64, kind: c_int, flags: c_ulonglong) {
        if kind != POSIX_FILE || flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        put!(to, vmm::with(|vmm| vmm.export(handle))?.into_raw_fd());
        Ok(())
    }

    fn cuMemImportFromShareableHandle(handle: *mut u64, from: *mut c_void, kind: c_int) {
        if kind != POSIX_FILE {
            return Err(Error::INVALID_VALUE);
        }
        let gpu = super::current()?;
        let place = MemoryPlacement { ordinal: gpu.ordinal, index: gpu.index };
        // SAFETY: a number of a descriptor that is open: CUDA's contract of the function.
        let file = unsafe { BorrowedFd::borrow_raw(from as usize as c_int) };
        put!(handle, vmm::with(|vmm| vmm.import(place, file))?);
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

    fn cuMemGetMemAllocationPropertiesFromHandle(prop: *mut MemAllocationProp, handle: u64) {
        let placement = vmm::with(|vmm| vmm.device(handle))?;
        let location = MemLocation::device(placement.ordinal as c_int);
        put!(prop, MemAllocationProp {
            alloc_type: ALLOCATION_PINNED,
            handle_types: 0,
            location,
            win32_handle_metadata: std::ptr::null_mut(),
            alloc_flags: [0; 8],
        });
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

    fn cuMemSetAccess(pointer: usize, size: usize, descriptions: *const MemAccessDesc, count: usize) {
        // SAFETY: `descriptions` has `count` elements: CUDA's contract of the function.
        let descriptions = unsafe { crate::image::slice(descriptions, count as c_uint) };
        if descriptions.is_empty() {
            return Err(Error::INVALID_VALUE);
        }
        for description in descriptions {
            let (read, write) = match description.flags {
                ACCESS_NONE => (false, false),
                ACCESS_READ => (true, false),
                ACCESS_READ_WRITE => (true, true),
                _ => return Err(Error::INVALID_VALUE),
            };
            let ordinal = ordinal(&description.location)?;
            vmm::with(|vmm| vmm.set_access(pointer, size, ordinal, read, write))?;
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: *mut c_ulonglong, location: *const MemLocation, pointer: usize) {
        // SAFETY: `location` is null or valid for reads: CUDA's contract of the function.
        let ordinal = ordinal(unsafe { location.as_ref() }.ok_or(Error::INVALID_VALUE)?)?;
        let found = vmm::with(|vmm| vmm.find(pointer));
        let Some(AddressContent::Mapped { access: DeviceAccess { read, write }, .. }) = found else {
            return Err(Error::INVALID_VALUE);
        };
        let has = |mask: u32| mask >> ordinal & 1 == 1;
        let granted = match (has(write), has(read)) {
            (true, _) => ACCESS_READ_WRITE,
            (false, true) => ACCESS_READ,
            (false, false) => ACCESS_NONE,
        };
        put!(flags, granted as c_ulonglong);
        Ok(())
    }
}
