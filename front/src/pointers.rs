//! What the driver says of addresses in the arena: there the front answers as if each block were an
//! allocation of the driver's own.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use crate::calls::{INVALID_VALUE, SUCCESS};
use crate::native::own;
use crate::store::{self, Block};

/// CUDA's `CU_POINTER_ATTRIBUTE_CONTEXT`,
const CONTEXT: c_uint = 1;
/// `CU_POINTER_ATTRIBUTE_P2P_TOKENS`, for other devices than GPUs,
const P2P_TOKENS: c_uint = 5;
/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`, which programs set before they give such a device the address,
const SYNC_MEMOPS: c_uint = 6;
/// `CU_POINTER_ATTRIBUTE_RANGE_START_ADDR`,
const RANGE_START: c_uint = 11;
/// and `CU_POINTER_ATTRIBUTE_RANGE_SIZE`.
const RANGE_SIZE: c_uint = 12;

fn find(address: u64) -> Option<(u64, Block)> {
    store::lock().find(address)
}

/// What the front knows better than the driver.
fn known((start, block): (u64, Block), attribute: c_uint) -> Option<u64> {
    match attribute {
        CONTEXT => Some(block.context as u64),
        RANGE_START => Some(start),
        RANGE_SIZE => Some(block.bytes),
        _ => None,
    }
}

own! {
    fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut usize, address: u64) |native| {
        let Some((start, block)) = find(address) else {
            return native(base, size, address);
        };
        // SAFETY: null or a place to write: CUDA's contract of the function.
        unsafe {
            if let Some(base) = base.as_mut() {
                *base = start;
            }
            if let Some(size) = size.as_mut() {
                *size = block.bytes as usize;
            }
        }
        SUCCESS
    }

    fn cuPointerSetAttribute(data: *const c_void, attribute: c_uint, address: u64) |native| {
        if attribute == SYNC_MEMOPS {
            store::lock().stay(address);
        }
        native(data, attribute, address)
    }

    fn cuMemGetHandleForAddressRange(
        handle: *mut c_void, address: u64, bytes: usize, kind: c_int, flags: c_ulonglong,
    ) |native| {
        store::lock().stay(address);
        native(handle, address, bytes, kind, flags)
    }

    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: u64) |native| {
        if attribute == P2P_TOKENS {
            store::lock().stay(address);
        }
        match find(address).and_then(|found| known(found, attribute)) {
            Some(value) if !data.is_null() => {
                // SAFETY: not null, and all of these have 8 bytes: CUDA's contract of the function.
                unsafe { data.cast::<u64>().write_unaligned(value) };
                SUCCESS
            }
            _ => native(data, attribute, address),
        }
    }

    fn cuPointerGetAttributes(
        count: c_uint, attributes: *const c_uint, data: *mut *mut c_void, address: u64,
    ) |native| {
        let code = native(count, attributes, data, address);
        let Some(found) = find(address).filter(|_| code == SUCCESS) else {
            return code;
        };
        for at in 0..count as usize {
            // SAFETY: the driver has read and written that many: CUDA's contract of the function.
            let (attribute, place) = unsafe { (*attributes.add(at), *data.add(at)) };
            if let Some(value) = known(found, attribute) {
                // SAFETY: as above, and all of these have 8 bytes.
                unsafe { place.cast::<u64>().write_unaligned(value) };
            }
        }
        SUCCESS
    }

    fn cuMemRetainAllocationHandle(handle: *mut u64, address: *mut c_void) |native| {
        // Of memory that the program has not made by cuMemCreate there is no handle.
        if find(address as u64).is_some() {
            return INVALID_VALUE;
        }
        let code: c_int = native(handle, address);
        if code == SUCCESS && !handle.is_null() {
            // SAFETY: the driver has written it.
            crate::handles::retained(unsafe { *handle });
        }
        code
    }
}
