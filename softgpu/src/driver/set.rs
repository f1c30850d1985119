//! Sets of device memory.

use super::{driver, stream};
use crate::error::{Error, Result};
use crate::memory::region::{Side, Size};
use crate::submit::fill;
use crate::transfer::Fill;

/// Sets `width` elements of each row, in the stream with this handle, or in the default stream and waits.
fn set(
    to: Side,
    value: u32,
    element: usize,
    (width, height): (usize, usize),
    handle: Option<usize>,
) -> Result {
    let (gpu, stream) = stream(handle.unwrap_or(0))?;
    let width = width.checked_mul(element).ok_or(Error::INVALID_VALUE)?;
    let is_aligned = to.at.is_multiple_of(element) && to.pitch.is_multiple_of(element);
    if !is_aligned || (height > 1 && width > to.pitch) {
        return Err(Error::INVALID_VALUE);
    }
    let size = Size::plane(width, height);
    let what = Fill {
        to,
        size,
        value,
        element,
    };
    fill(gpu, &stream, what, handle.is_none())
}

fn row(to: usize, value: u32, element: usize, count: usize, handle: Option<usize>) -> Result {
    set(Side::plain(to), value, element, (count, 1), handle)
}

driver! {
    fn cuMemsetD8_v2(to: usize, value: u8, count: usize) {
        row(to, value.into(), 1, count, None)
    }

    fn cuMemsetD16_v2(to: usize, value: u16, count: usize) {
        row(to, value.into(), 2, count, None)
    }

    fn cuMemsetD32_v2(to: usize, value: u32, count: usize) {
        row(to, value, 4, count, None)
    }

    fn cuMemsetD8Async(to: usize, value: u8, count: usize, stream: usize) {
        row(to, value.into(), 1, count, Some(stream))
    }

    fn cuMemsetD16Async(to: usize, value: u16, count: usize, stream: usize) {
        row(to, value.into(), 2, count, Some(stream))
    }

    fn cuMemsetD32Async(to: usize, value: u32, count: usize, stream: usize) {
        row(to, value, 4, count, Some(stream))
    }

    fn cuMemsetD2D8_v2(to: usize, pitch: usize, value: u8, width: usize, height: usize) {
        set(Side::rows(to, pitch), value.into(), 1, (width, height), None)
    }

    fn cuMemsetD2D16_v2(to: usize, pitch: usize, value: u16, width: usize, height: usize) {
        set(Side::rows(to, pitch), value.into(), 2, (width, height), None)
    }

    fn cuMemsetD2D32_v2(to: usize, pitch: usize, value: u32, width: usize, height: usize) {
        set(Side::rows(to, pitch), value, 4, (width, height), None)
    }

    fn cuMemsetD2D8Async(
        to: usize, pitch: usize, value: u8, width: usize, height: usize, stream: usize,
    ) {
        set(Side::rows(to, pitch), value.into(), 1, (width, height), Some(stream))
    }

    fn cuMemsetD2D16Async(
        to: usize, pitch: usize, value: u16, width: usize, height: usize, stream: usize,
    ) {
        set(Side::rows(to, pitch), value.into(), 2, (width, height), Some(stream))
    }

    fn cuMemsetD2D32Async(
        to: usize, pitch: usize, value: u32, width: usize, height: usize, stream: usize,
    ) {
        set(Side::rows(to, pitch), value, 4, (width, height), Some(stream))
    }
}
