//! Copies and sets. Asynchronous ones take the runtime's streams.

use std::ffi::c_void;

use super::{current, driver};
use crate::error::{Error, Result};
use crate::memory::region::{Copy, Fill, Side, Size};
use crate::memory::transfer::{copy, copy_async, fill};
use crate::stream::handle;

/// `cudaMemcpyKind`s.
const TO_DEVICE: i32 = 1;
const FROM_DEVICE: i32 = 2;
const WITHIN: i32 = 3;
const BY_ADDRESS: i32 = 4;

fn now(to: usize, from: usize, count: usize, kind: i32) -> Result {
    let gpu = current()?;
    copy(gpu, gpu.streams.legacy(), Copy::bytes(to, from, count), kind)
}

fn later(to: usize, from: usize, count: usize, kind: i32, stream: usize) -> Result {
    current()?;
    let (gpu, stream) = handle::resolve(stream)?;
    copy_async(gpu, &stream, Copy::bytes(to, from, count), kind)
}

fn set(to: usize, value: u32, element: usize, count: usize) -> Result {
    let gpu = current()?;
    let what = Fill {
        to: Side::plain(to),
        size: Size::row(count.checked_mul(element).ok_or(Error::INVALID_VALUE)?),
        value,
        element,
    };
    if !to.is_multiple_of(element) {
        return Err(Error::INVALID_VALUE);
    }
    fill(gpu, gpu.streams.legacy(), what, true)
}

driver! {
    fn cuMemcpyHtoD_v2(to: usize, from: *const c_void, count: usize) {
        now(to, from as usize, count, TO_DEVICE)
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: usize, count: usize) {
        now(to as usize, from, count, FROM_DEVICE)
    }

    fn cuMemcpyDtoD_v2(to: usize, from: usize, count: usize) {
        now(to, from, count, WITHIN)
    }

    fn cuMemcpy(to: usize, from: usize, count: usize) {
        now(to, from, count, BY_ADDRESS)
    }

    fn cuMemcpyHtoDAsync_v2(to: usize, from: *const c_void, count: usize, stream: usize) {
        later(to, from as usize, count, TO_DEVICE, stream)
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: usize, count: usize, stream: usize) {
        later(to as usize, from, count, FROM_DEVICE, stream)
    }

    fn cuMemcpyDtoDAsync_v2(to: usize, from: usize, count: usize, stream: usize) {
        later(to, from, count, WITHIN, stream)
    }

    fn cuMemsetD8_v2(to: usize, value: u8, count: usize) {
        set(to, value.into(), 1, count)
    }

    fn cuMemsetD16_v2(to: usize, value: u16, count: usize) {
        set(to, value.into(), 2, count)
    }

    fn cuMemsetD32_v2(to: usize, value: u32, count: usize) {
        set(to, value, 4, count)
    }
}
