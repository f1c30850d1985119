//! Copies of boxes between pitched memory and arrays.

use mgb_abi::copy::DEFAULT;
use mgb_abi::copy3d::{CopySide, Memcpy3DParms, Memcpy3DPeerParms, PitchedPtr, Pos};

use super::arguments::read;
use super::copy::{devices, later, later_by_devices, now, now_by_devices};
use super::dispatch::CallDevices;
use super::runtime;
use crate::error::{Error, Result};
use crate::memory::array;
use crate::memory::region::{Side, Size};
use crate::transfer::MemoryCopy;

/// Bytes of an element; `None` for pitched memory.
fn element(side: &CopySide) -> Result<Option<usize>> {
    match (side.array.is_null(), side.ptr.ptr.is_null()) {
        (true, false) => Ok(None),
        (false, true) => Ok(Some(array::find(side.array as usize)?.element())),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// One side of a copy of this size, in bytes.
fn side_of(described: &CopySide, size: &Size) -> Result<Side> {
    let Pos { x, y, z } = described.pos;
    if !described.array.is_null() {
        let array = array::find(described.array as usize)?;
        return array.side([x * array.element(), y, z], size);
    }
    let PitchedPtr { pitch, ysize, .. } = described.ptr;
    if x + size.width > pitch && size.bytes() > 0 {
        let is_row = size.height == 1 && size.depth == 1;
        return Err(if is_row {
            Error::INVALID_VALUE
        } else {
            Error::INVALID_PITCH_VALUE
        });
    }
    if size.depth > 1 && y + size.height > ysize {
        return Err(Error::INVALID_VALUE);
    }
    let side = Side::from(described.ptr);
    let at = side.at + z * side.slice + y * pitch + x;
    Ok(Side { at, ..side })
}

/// What a description asks to copy, in bytes.
///
/// # Errors
/// `INVALID_VALUE` and `INVALID_PITCH_VALUE` for sides that name no memory, or too little of it.
pub fn copy_of(parameters: &Memcpy3DParms) -> Result<MemoryCopy> {
    let Memcpy3DParms { src, dst, extent, .. } = parameters;
    let element = match (element(dst)?, element(src)?) {
        (Some(dst), Some(src)) if dst != src => return Err(Error::INVALID_VALUE),
        (dst, src) => dst.or(src).unwrap_or(1),
    };
    let size = Size {
        width: extent.width.checked_mul(element).ok_or(Error::INVALID_VALUE)?,
        ..Size::from(*extent)
    };
    Ok(MemoryCopy {
        to: side_of(dst, &size)?,
        from: side_of(src, &size)?,
        size,
    })
}

fn peer(parameters: *const Memcpy3DPeerParms) -> Result<(MemoryCopy, CallDevices)> {
    let Memcpy3DPeerParms {
        src,
        src_device,
        dst,
        dst_device,
        extent,
    } = read(parameters)?;
    let devices = devices(dst_device, src_device)?;
    let what = copy_of(&Memcpy3DParms {
        src,
        dst,
        extent,
        kind: DEFAULT,
    })?;
    Ok((what, devices))
}

runtime! {
    fn cudaMemcpy3D(parameters: *const Memcpy3DParms) {
        let parameters = read(parameters)?;
        now(copy_of(&parameters)?, parameters.kind)
    }

    fn cudaMemcpy3DAsync(parameters: *const Memcpy3DParms, stream: usize) {
        let parameters = read(parameters)?;
        later(copy_of(&parameters)?, parameters.kind, stream)
    }

    fn cudaMemcpy3DPeer(parameters: *const Memcpy3DPeerParms) {
        let (what, devices) = peer(parameters)?;
        now_by_devices(what, DEFAULT, devices)
    }

    fn cudaMemcpy3DPeerAsync(parameters: *const Memcpy3DPeerParms, stream: usize) {
        let (what, devices) = peer(parameters)?;
        later_by_devices(what, DEFAULT, devices, stream)
    }
}
