//! Devices, versions, error texts.

use std::ffi::{c_char, c_int, c_uint};

use super::{driver, gpu};
use crate::config::profile;
use crate::device::node::{self, node};
use crate::device::properties;
use crate::driver_front;
use crate::entry::put;
use crate::error::{self, Error, Result};

fn name_of(text: Option<&'static std::ffi::CStr>, to: *mut *const c_char) -> Result {
    put!(to, text.map_or(std::ptr::null(), |text| text.as_ptr()));
    if text.is_some() {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
    }
}

driver! {
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        // A front that there may be has called this, or was not loaded.
        node::known().map(drop)
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        driver_front::reached();
        put!(version, profile::CUDA_VERSION);
        Ok(())
    }

    fn cuDeviceGetCount(count: *mut c_int) {
        put!(count, node()?.gpus().len() as c_int);
        Ok(())
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        put!(device, gpu(ordinal)?.ordinal as c_int);
        Ok(())
    }

    fn cuDeviceGetName(text: *mut c_char, length: c_int, device: c_int) {
        let name = gpu(device)?.profile().name;
        let room = usize::try_from(length).ok().and_then(|length| length.checked_sub(1)).ok_or(Error::INVALID_VALUE)?;
        if text.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let name = &name.as_bytes()[..name.len().min(room)];
        // SAFETY: `text` has room for `length` bytes: CUDA's contract of the function.
        unsafe {
            std::ptr::copy_nonoverlapping(name.as_ptr(), text.cast::<u8>(), name.len());
            text.add(name.len()).write(0);
        }
        Ok(())
    }

    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) {
        put!(uuid, profile::uuid(gpu(device)?.index));
        Ok(())
    }

    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        put!(uuid, profile::uuid(gpu(device)?.index));
        Ok(())
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        put!(bytes, gpu(device)?.spec.memory as usize);
        Ok(())
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        let gpu = gpu(device)?;
        put!(value, properties::attribute(gpu, attribute).ok_or(Error::INVALID_VALUE)?);
        Ok(())
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        put!(can, c_int::from(gpu(device)?.ordinal != gpu(peer)?.ordinal));
        Ok(())
    }

    fn cuGetErrorName(code: c_int, text: *mut *const c_char) {
        name_of(error::driver_name(code), text)
    }

    fn cuGetErrorString(code: c_int, text: *mut *const c_char) {
        name_of(error::driver_name(code).and_then(|_| error::text(code)), text)
    }
}
