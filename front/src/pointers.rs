//! What the driver says of addresses in the arena: there the front answers as if each block were an
//! allocation of the driver's own.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use mgb_core::gate;

use crate::allocations::{self, Block};
use crate::calls::Code;
use crate::native::own;
use crate::{physical, program_memory};

/// CUDA's `CU_POINTER_ATTRIBUTE_CONTEXT`: the context that an address was allocated in.
const CONTEXT: c_uint = 1;
/// `CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE`, a number of four bytes, as of an H100's driver 580: whether
/// `cuIpcGetMemHandle` takes the address,
const LEGACY_IPC: c_uint = 10;
/// `CU_POINTER_ATTRIBUTE_P2P_TOKENS`, for other devices than GPUs,
const P2P_TOKENS: c_uint = 5;
/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`, which programs set before they give such a device the address,
const SYNC_MEMOPS: c_uint = 6;
/// `CU_POINTER_ATTRIBUTE_RANGE_START_ADDR`,
const RANGE_START: c_uint = 11;
/// `CU_POINTER_ATTRIBUTE_RANGE_SIZE`,
const RANGE_SIZE: c_uint = 12;
/// and `CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES`: the program itself exports none of this.
const HANDLE_TYPES: c_uint = 14;

fn find(address: u64) -> Option<(u64, Block)> {
    allocations::lock().find(address)
}

/// What the front knows better than the driver, in as many bytes as CUDA writes.
enum AttributeValue {
    Number(u32),
    Word(u64),
}

impl AttributeValue {
    fn of((start, block): (u64, Block), attribute: c_uint) -> Option<AttributeValue> {
        match attribute {
            CONTEXT => Some(AttributeValue::Word(block.context as u64)),
            LEGACY_IPC => Some(AttributeValue::Number(u32::from(physical::is_shareable()))),
            RANGE_START => Some(AttributeValue::Word(start)),
            RANGE_SIZE => Some(AttributeValue::Word(block.bytes)),
            HANDLE_TYPES => Some(AttributeValue::Word(0)),
            _ => None,
        }
    }

    /// # Safety
    /// `place` can be written: CUDA's contract of the functions that take it for this attribute.
    unsafe fn write(self, place: *mut c_void) {
        // SAFETY: contract of this function.
        unsafe {
            match self {
                AttributeValue::Number(value) => place.cast::<u32>().write_unaligned(value),
                AttributeValue::Word(value) => place.cast::<u64>().write_unaligned(value),
            }
        }
    }
}

/// Another device than a GPU is to use what is there: it stays where it is.
fn stay(address: u64, bytes: u64) {
    let _inside = gate::enter();
    allocations::lock().stay(address);
    program_memory::stay_at(address, bytes);
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
        Code::SUCCESS
    }

    fn cuPointerSetAttribute(data: *const c_void, attribute: c_uint, address: u64) |native| {
        if attribute == SYNC_MEMOPS {
            stay(address, 1);
        }
        native(data, attribute, address)
    }

    fn cuMemGetHandleForAddressRange(
        handle: *mut c_void, address: u64, bytes: usize, kind: c_int, flags: c_ulonglong,
    ) |native| {
        stay(address, bytes as u64);
        native(handle, address, bytes, kind, flags)
    }

    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: u64) |native| {
        if attribute == P2P_TOKENS {
            stay(address, 1);
        }
        match find(address).and_then(|found| AttributeValue::of(found, attribute)) {
            Some(value) if !data.is_null() => {
                // SAFETY: not null, so it can be written: CUDA's contract of the function.
                unsafe { value.write(data) };
                Code::SUCCESS
            }
            _ => native(data, attribute, address),
        }
    }

    fn cuPointerGetAttributes(
        count: c_uint, attributes: *const c_uint, data: *mut *mut c_void, address: u64,
    ) |native| {
        let code = native(count, attributes, data, address);
        let Some(found) = find(address).filter(|_| code == Code::SUCCESS) else {
            return code;
        };
        for at in 0..count as usize {
            // SAFETY: the driver has read and written that many: CUDA's contract of the function.
            let (attribute, place) = unsafe { (*attributes.add(at), *data.add(at)) };
            if let Some(value) = AttributeValue::of(found, attribute) {
                // SAFETY: as above.
                unsafe { value.write(place) };
            }
        }
        Code::SUCCESS
    }
}
