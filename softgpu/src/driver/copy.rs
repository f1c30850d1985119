//! Copies of bytes.

use std::ffi::c_void;

use mgb_abi::copy::{DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE};

use super::{driver, stream};
use crate::error::Result;
use crate::submit;
use crate::transfer::MemoryCopy;

/// Copies, and waits for it.
pub(super) fn now(what: MemoryCopy, kind: u32) -> Result {
    let (gpu, stream) = stream(0)?;
    submit::copy(gpu, &stream, what, kind)
}

/// Copies in a stream's turn.
pub(super) fn later(what: MemoryCopy, kind: u32, handle: usize) -> Result {
    let (gpu, stream) = stream(handle)?;
    submit::copy_async(gpu, &stream, what, kind)
}

driver! {
    fn cuMemcpyHtoD_v2(to: usize, from: *const c_void, count: usize) {
        now(MemoryCopy::bytes(to, from as usize, count), HOST_TO_DEVICE)
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: usize, count: usize) {
        now(MemoryCopy::bytes(to as usize, from, count), DEVICE_TO_HOST)
    }

    fn cuMemcpyDtoD_v2(to: usize, from: usize, count: usize) {
        now(MemoryCopy::bytes(to, from, count), DEVICE_TO_DEVICE)
    }

    fn cuMemcpy(to: usize, from: usize, count: usize) {
        now(MemoryCopy::bytes(to, from, count), DEFAULT)
    }

    fn cuMemcpyHtoDAsync_v2(to: usize, from: *const c_void, count: usize, stream: usize) {
        later(MemoryCopy::bytes(to, from as usize, count), HOST_TO_DEVICE, stream)
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: usize, count: usize, stream: usize) {
        later(MemoryCopy::bytes(to as usize, from, count), DEVICE_TO_HOST, stream)
    }

    fn cuMemcpyDtoDAsync_v2(to: usize, from: usize, count: usize, stream: usize) {
        later(MemoryCopy::bytes(to, from, count), DEVICE_TO_DEVICE, stream)
    }

    fn cuMemcpyAsync(to: usize, from: usize, count: usize, stream: usize) {
        later(MemoryCopy::bytes(to, from, count), DEFAULT, stream)
    }
}
