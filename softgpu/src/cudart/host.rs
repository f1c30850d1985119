//! Pinned host memory.

use std::ffi::{c_uint, c_void};

use mgb_abi::host::*;

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
        if size != 0 && flags & !(HOST_ALLOC_PORTABLE | HOST_ALLOC_MAPPED | HOST_ALLOC_WRITE_COMBINED) != 0 {
            return Err(Error::INVALID_VALUE);
        }
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
        // Memory of devices is not at any address of this host's.
        if flags & !(HOST_REGISTER_PORTABLE | HOST_REGISTER_MAPPED | HOST_REGISTER_READ_ONLY) != 0 {
            return Err(Error::INVALID_VALUE);
        }
        pinned::register(pointer as usize, size, flags)
    }

    fn cudaHostUnregister(pointer: *mut c_void) {
        current::active()?.streams.finish();
        pinned::unregister(pointer as usize)
    }

    fn cudaHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: c_uint) {
        current::active()?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        pinned::find(host as usize).ok_or(Error::INVALID_VALUE)?;
        put!(device, host);
        Ok(())
    }

    fn cudaHostGetFlags(flags: *mut c_uint, host: *mut c_void) {
        current::active()?;
        let asked = pinned::find(host as usize).ok_or(Error::INVALID_VALUE)?.flags;
        // All pinned memory is mapped.
        put!(flags, asked & (HOST_ALLOC_PORTABLE | HOST_ALLOC_WRITE_COMBINED) | HOST_ALLOC_MAPPED);
        Ok(())
    }
}
