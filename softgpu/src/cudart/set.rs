//! Sets.

use std::ffi::{c_int, c_void};

use super::runtime;
use crate::error::{Error, Result};
use crate::memory::transfer::{Fill, fill};
use crate::stream::handle;

fn rows(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) -> Result<Fill> {
    if width > pitch && height > 1 {
        return Err(Error::INVALID_PITCH);
    }
    Ok(Fill {
        to: to as usize,
        pitch,
        value: value as u8,
        width,
        height,
    })
}

fn set(what: Fill, stream: usize, wait: bool) -> Result {
    let (gpu, stream) = handle::resolve(stream)?;
    fill(gpu, &stream, what, wait)
}

runtime! {
    fn cudaMemset(to: *mut c_void, value: c_int, count: usize) {
        set(rows(to, count, value, count, 1)?, 0, true)
    }

    fn cudaMemsetAsync(to: *mut c_void, value: c_int, count: usize, stream: usize) {
        set(rows(to, count, value, count, 1)?, stream, false)
    }

    fn cudaMemset2D(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) {
        set(rows(to, pitch, value, width, height)?, 0, true)
    }

    fn cudaMemset2DAsync(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: usize) {
        set(rows(to, pitch, value, width, height)?, stream, false)
    }
}
