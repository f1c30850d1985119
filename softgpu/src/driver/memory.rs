//! Memory of contexts.

use std::ffi::c_uint;

use super::{current, driver};
use crate::address::{self, AddressKind, locate};
use crate::entry::put;
use crate::error::Error;
use crate::memory::heap::Use;

driver! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let (left, all) = current()?.memory();
        put!(free, left as usize);
        put!(total, all as usize);
        Ok(())
    }

    fn cuMemAlloc_v2(pointer: *mut usize, size: usize) {
        let gpu = current()?;
        if size == 0 {
            return Err(Error::INVALID_VALUE);
        }
        put!(pointer, address::allocate(gpu, size, Use::Plain)?);
        Ok(())
    }

    fn cuMemFree_v2(pointer: usize) {
        let gpu = current()?;
        if pointer == 0 {
            return Ok(());
        }
        gpu.streams.finish();
        address::free(pointer)
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
