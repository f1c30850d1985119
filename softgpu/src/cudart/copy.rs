//! Copies of one and two dimensions between pointers.

use std::ffi::{c_int, c_void};

use mgb_abi::copy::DEVICE_TO_DEVICE;

use super::dispatch::{self, CallDevices};
use super::runtime;
use crate::device::{node, resolve};
use crate::error::{Error, Result};
use crate::graph::capture;
use crate::memory::region::{Side, Size};
use crate::transfer::MemoryCopy;

/// Both pitches must hold a row; where there is only one, that is said by another code.
fn rows(
    (to, to_pitch): (*mut c_void, usize),
    (from, from_pitch): (*const c_void, usize),
    width: usize,
    height: usize,
) -> Result<MemoryCopy> {
    let holds = width <= to_pitch.min(from_pitch);
    match height {
        1 if !holds => return Err(Error::INVALID_VALUE),
        2.. if !holds => return Err(Error::INVALID_PITCH_VALUE),
        _ => {}
    }
    Ok(MemoryCopy {
        to: Side::rows(to as usize, to_pitch),
        from: Side::rows(from as usize, from_pitch),
        size: Size::plane(width, height),
    })
}

/// Copies, and waits for it.
pub fn now(what: MemoryCopy, kind: u32) -> Result {
    let (gpu, stream) = resolve::stream(0)?;
    dispatch::copy(gpu, &stream, what, kind)
}

/// Copies in a stream's turn.
pub fn later(what: MemoryCopy, kind: u32, handle: usize) -> Result {
    let (gpu, stream) = resolve::stream(handle)?;
    dispatch::copy_async(gpu, &stream, handle, what, kind)
}

/// As [`now`], for calls that name the devices, the one that is copied to first.
pub fn now_by_devices(what: MemoryCopy, kind: u32, devices: CallDevices) -> Result {
    let (gpu, stream) = resolve::stream(0)?;
    if what.size.bytes() == 0 {
        return Ok(());
    }
    dispatch::copy_named(gpu, &stream, what, kind, devices)
}

/// As [`later`], for calls that name the devices: no capture records them.
pub fn later_by_devices(what: MemoryCopy, kind: u32, devices: CallDevices, handle: usize) -> Result {
    let (gpu, stream) = resolve::stream(handle)?;
    if what.size.bytes() == 0 {
        return Ok(());
    }
    capture::refuse(&stream)?;
    dispatch::copy_named_async(gpu, &stream, handle, what, kind, devices)
}

/// The devices that a call names.
///
/// # Errors
/// `INVALID_DEVICE`.
pub fn devices(to: c_int, from: c_int) -> Result<CallDevices> {
    Ok((node()?.gpu(to)?, node()?.gpu(from)?))
}

runtime! {
    fn cudaMemcpy(to: *mut c_void, from: *const c_void, count: usize, kind: u32) {
        now(MemoryCopy::bytes(to as usize, from as usize, count), kind)
    }

    fn cudaMemcpyAsync(to: *mut c_void, from: *const c_void, count: usize, kind: u32, stream: usize) {
        later(MemoryCopy::bytes(to as usize, from as usize, count), kind, stream)
    }

    fn cudaMemcpy2D(
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
        kind: u32,
    ) {
        now(rows((to, to_pitch), (from, from_pitch), width, height)?, kind)
    }

    fn cudaMemcpy2DAsync(
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
        kind: u32, stream: usize,
    ) {
        later(rows((to, to_pitch), (from, from_pitch), width, height)?, kind, stream)
    }

    fn cudaMemcpyPeer(
        to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, count: usize,
    ) {
        let devices = devices(to_device, from_device)?;
        now_by_devices(MemoryCopy::bytes(to as usize, from as usize, count), DEVICE_TO_DEVICE, devices)
    }

    fn cudaMemcpyPeerAsync(
        to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, count: usize,
        stream: usize,
    ) {
        let devices = devices(to_device, from_device)?;
        later_by_devices(MemoryCopy::bytes(to as usize, from as usize, count), DEVICE_TO_DEVICE, devices, stream)
    }
}
