//! Pinned host memory.

use std::ffi::{c_uint, c_void};

use mgb_abi::host::HOST_ALLOC_FLAGS;

use super::{current, driver};
use crate::entry::put;
use crate::error::Error;
use crate::graph::capture;
use crate::memory::pinned;

driver! {
    fn cuMemHostAlloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) {
        current()?;
        capture::forbid()?;
        if size == 0 || flags & !HOST_ALLOC_FLAGS != 0 {
            return Err(Error::INVALID_VALUE);
        }
        put!(pointer, pinned::allocate(size, flags)? as *mut c_void);
        Ok(())
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        let gpu = current()?;
        capture::forbid()?;
        gpu.streams.finish();
        pinned::free(pointer as usize)
    }
}
