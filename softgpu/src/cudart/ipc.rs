//! Memory and events that processes share.

use std::ffi::{c_uint, c_void};

use mgb_abi::ipc::LAZY_ENABLE_PEER_ACCESS;

use super::{put, runtime};
use crate::address::share;
use crate::device::{current, node};
use crate::error::Error;
use crate::memory::share::Handle;
use crate::stream::{event, shared};

runtime! {
    fn cudaIpcGetMemHandle(handle: *mut Handle, memory: *mut c_void) {
        current::active()?;
        let mut gpus = node()?.gpus().iter();
        let gpu = gpus.find(|gpu| gpu.heap().owns(memory as usize)).ok_or(Error::INVALID_VALUE)?;
        if handle.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(handle, share::export(gpu, memory as usize)?);
        Ok(())
    }

    fn cudaIpcGetEventHandle(handle: *mut shared::Handle, event: usize) {
        put!(handle, event::find(event)?.ipc()?);
        Ok(())
    }

    fn cudaIpcOpenEventHandle(event: *mut usize, handle: shared::Handle) {
        current::active()?;
        if event.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(event, event::open(&handle)?);
        Ok(())
    }

    fn cudaIpcOpenMemHandle(memory: *mut *mut c_void, handle: Handle, flags: c_uint) {
        current::active()?;
        if memory.is_null() || flags & !LAZY_ENABLE_PEER_ACCESS != 0 {
            return Err(Error::INVALID_VALUE);
        }
        put!(memory, share::open(&handle)? as *mut c_void);
        Ok(())
    }

    fn cudaIpcCloseMemHandle(memory: *mut c_void) {
        current::active()?;
        share::close(memory as usize)
    }
}
