//! Pinned host memory.

use std::ffi::{c_uint, c_void};

use super::{put, runtime};
use crate::device::current;
use crate::error::{Error, Result};
use crate::graph::capture;
use crate::memory::pinned;

fn allocate(size: usize, flags: c_uint) -> Result<*mut c_void> {
    current::active()?;
    capture::forbid()?;
    if size == 0 {
        return Ok(std::ptr::null_mut());
    }
    Ok(pinned::allocate(size, flags)? as *mut c_void)
}

runtime! {
    fn cudaMallocHost(pointer: *mut *mut c_void, size: usize) {
        put!(pointer, allocate(size, 0)?);
        Ok(())
    }

    fn cudaHostAlloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) {
        put!(pointer, allocate(size, flags)?);
        Ok(())
    }

    fn cudaFreeHost(pointer: *mut c_void) {
        let gpu = current::active()?;
        if pointer.is_null() {
            return Ok(());
        }
        capture::forbid()?;
        gpu.streams.finish();
        pinned::free(pointer as usize)
    }

    fn cudaHostRegister(pointer: *mut c_void, size: usize, flags: c_uint) {
        current::active()?;
        pinned::register(pointer as usize, size, flags)
    }

    fn cudaHostUnregister(pointer: *mut c_void) {
        current::active()?.streams.finish();
        pinned::unregister(pointer as usize)
    }

    fn cudaHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, _flags: c_uint) {
        current::active()?;
        pinned::find(host as usize).ok_or(Error::INVALID_VALUE)?;
        put!(device, host);
        Ok(())
    }

    fn cudaHostGetFlags(flags: *mut c_uint, host: *mut c_void) {
        current::active()?;
        put!(flags, pinned::find(host as usize).ok_or(Error::INVALID_VALUE)?.flags);
        Ok(())
    }
}
