//! Copies and sets. Asynchronous ones take the runtime's streams.

use std::ffi::c_void;

use mgb_abi::copy::{DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE};

use super::{current, driver};
use crate::device::resolve;
use crate::error::{Error, Result};
use crate::memory::region::{Side, Size};
use crate::submit::{copy, copy_async, fill};
use crate::transfer::{Copy, Fill};

fn now(to: usize, from: usize, count: usize, kind: u32) -> Result {
    let gpu = current()?;
    copy(gpu, gpu.streams.legacy(), Copy::bytes(to, from, count), kind)
}

fn later(to: usize, from: usize, count: usize, kind: u32, stream: usize) -> Result {
    current()?;
    let (gpu, stream) = resolve::stream(stream)?;
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
        now(to, from as usize, count, HOST_TO_DEVICE)
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: usize, count: usize) {
        now(to as usize, from, count, DEVICE_TO_HOST)
    }

    fn cuMemcpyDtoD_v2(to: usize, from: usize, count: usize) {
        now(to, from, count, DEVICE_TO_DEVICE)
    }

    fn cuMemcpy(to: usize, from: usize, count: usize) {
        now(to, from, count, DEFAULT)
    }

    fn cuMemcpyHtoDAsync_v2(to: usize, from: *const c_void, count: usize, stream: usize) {
        later(to, from as usize, count, HOST_TO_DEVICE, stream)
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: usize, count: usize, stream: usize) {
        later(to as usize, from, count, DEVICE_TO_HOST, stream)
    }

    fn cuMemcpyDtoDAsync_v2(to: usize, from: usize, count: usize, stream: usize) {
        later(to, from, count, DEVICE_TO_DEVICE, stream)
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
