//! Memory and events that processes share.

use std::ffi::{c_uint, c_void};

use mgb_abi::ipc::LAZY_ENABLE_PEER_ACCESS;

use super::{put, runtime};
use crate::address::share;
use crate::device::current;
use crate::driver::ipc::export;
use crate::driver_front;
use crate::error::Error;
use crate::memory::share::MemoryHandle;
use crate::stream::{event, shared};

runtime! {
    fn cudaIpcGetMemHandle(handle: *mut MemoryHandle, memory: *mut c_void) {
        current::active()?;
        if handle.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        match driver_front::front() {
            Some(front) => front.cuIpcGetMemHandle(handle, memory as usize),
            None => {
                put!(handle, export(memory as usize)?);
                Ok(())
            }
        }
    }

    fn cudaIpcGetEventHandle(handle: *mut shared::EventHandle, event: usize) {
        let found = event::find(event)?;
        match driver_front::front() {
            Some(front) => front.cuIpcGetEventHandle(handle, event),
            None => {
                put!(handle, found.ipc()?);
                Ok(())
            }
        }
    }

    fn cudaIpcOpenEventHandle(event: *mut usize, handle: shared::EventHandle) {
        current::active()?;
        if event.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        match driver_front::front() {
            Some(front) => front.cuIpcOpenEventHandle(event, handle),
            None => {
                put!(event, event::open(&handle)?);
                Ok(())
            }
        }
    }

    fn cudaIpcOpenMemHandle(memory: *mut *mut c_void, handle: MemoryHandle, flags: c_uint) {
        current::active()?;
        if memory.is_null() || flags & !LAZY_ENABLE_PEER_ACCESS != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let address = match driver_front::front() {
            Some(front) => {
                let mut address = 0;
                front.cuIpcOpenMemHandle(&mut address, handle, flags)?;
                address
            }
            None => share::open(&handle)?,
        };
        put!(memory, address as *mut c_void);
        Ok(())
    }

    fn cudaIpcCloseMemHandle(memory: *mut c_void) {
        current::active()?;
        match driver_front::front() {
            Some(front) => front.cuIpcCloseMemHandle(memory as usize),
            None => share::close(memory as usize),
        }
    }
}
