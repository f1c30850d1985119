//! The runtime's functions that set memory.

use std::ffi::{c_int, c_void};

use mgb_abi::copy3d::{CudaExtent, PitchedPtr};

use super::{dispatch, runtime};
use crate::device::resolve;
use crate::error::{Error, Result};
use crate::memory::region::{Side, Size};
use crate::transfer::Fill;

fn row(to: *mut c_void, value: c_int, count: usize) -> Fill {
    Fill::bytes(Side::plain(to as usize), Size::row(count), value as u8)
}

fn plane(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) -> Result<Fill> {
    if width > pitch && height > 1 {
        return Err(Error::INVALID_VALUE);
    }
    let to = Side::rows(to as usize, pitch);
    Ok(Fill::bytes(to, Size::plane(width, height), value as u8))
}

/// The planes of pitched memory are `ysize` rows apart; an extent may be smaller.
fn planes(to: PitchedPtr, value: c_int, extent: CudaExtent) -> Result<Fill> {
    let tall = extent.depth > 1 && extent.height > to.ysize;
    let wide = extent.width > to.pitch && (extent.height > 1 || extent.depth > 1);
    if tall || wide {
        return Err(Error::INVALID_VALUE);
    }
    Ok(Fill::bytes(to.into(), extent.into(), value as u8))
}

fn set(what: Fill, handle: usize, wait: bool) -> Result {
    let (gpu, stream) = resolve::stream(handle)?;
    dispatch::fill(gpu, &stream, handle, what, wait)
}

runtime! {
    fn cudaMemset(to: *mut c_void, value: c_int, count: usize) {
        set(row(to, value, count), 0, true)
    }

    fn cudaMemsetAsync(to: *mut c_void, value: c_int, count: usize, stream: usize) {
        set(row(to, value, count), stream, false)
    }

    fn cudaMemset2D(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) {
        set(plane(to, pitch, value, width, height)?, 0, true)
    }

    fn cudaMemset2DAsync(
        to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: usize,
    ) {
        set(plane(to, pitch, value, width, height)?, stream, false)
    }

    fn cudaMemset3D(to: PitchedPtr, value: c_int, extent: CudaExtent) {
        set(planes(to, value, extent)?, 0, true)
    }

    fn cudaMemset3DAsync(to: PitchedPtr, value: c_int, extent: CudaExtent, stream: usize) {
        set(planes(to, value, extent)?, stream, false)
    }
}
