//! Memory and events that processes share.

use std::ffi::c_uint;

use mgb_abi::ipc::LAZY_ENABLE_PEER_ACCESS;

use super::{current, driver};
use crate::address::share;
use crate::device::node;
use crate::entry::put;
use crate::error::{Error, Result};
use crate::memory::share::MemoryHandle;
use crate::stream::{event, shared};

/// A handle to memory of this process.
///
/// # Errors
/// `INVALID_VALUE` for no device memory, `OPERATING_SYSTEM`.
pub fn export(memory: usize) -> Result<MemoryHandle> {
    let mut gpus = node()?.gpus().iter();
    let gpu = gpus
        .find(|gpu| gpu.heap().owns(memory))
        .ok_or(Error::INVALID_VALUE)?;
    share::export(gpu, memory)
}

driver! {
    fn cuIpcGetMemHandle(handle: *mut MemoryHandle, memory: usize) {
        current()?;
        if handle.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(handle, export(memory)?);
        Ok(())
    }

    fn cuIpcOpenMemHandle_v2(memory: *mut usize, handle: MemoryHandle, flags: c_uint) {
        current()?;
        if memory.is_null() || flags & !LAZY_ENABLE_PEER_ACCESS != 0 {
            return Err(Error::INVALID_VALUE);
        }
        put!(memory, share::open(&handle)?);
        Ok(())
    }

    fn cuIpcCloseMemHandle(memory: usize) {
        current()?;
        share::close(memory)
    }

    fn cuIpcGetEventHandle(handle: *mut shared::EventHandle, event: usize) {
        put!(handle, event::find(event)?.ipc()?);
        Ok(())
    }

    fn cuIpcOpenEventHandle(event: *mut usize, handle: shared::EventHandle) {
        current()?;
        if event.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(event, event::open(&handle)?);
        Ok(())
    }
}
