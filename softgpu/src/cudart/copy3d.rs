//! Copies of boxes between pitched memory and arrays.

use std::ffi::c_int;

use super::copy::{BY_ADDRESS, later, later_by_devices, now, now_by_devices};
use super::memory::{Extent, PitchedPtr};
use super::runtime;
use crate::device::node;
use crate::error::{Error, Result};
use crate::memory::array;
use crate::memory::region::{Copy, Side, Size};

/// `cudaPos`: where in an object, in its elements. Those of a pointer are bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Pos {
    pub x: usize,
    pub y: usize,
    pub z: usize,
}

/// One side of a copy: an array or pitched memory, never both.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Object {
    pub array: usize,
    pub pos: Pos,
    pub ptr: PitchedPtr,
}

/// `cudaMemcpy3DParms`. The extent's width counts elements where an array takes part, else bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Memcpy3DParms {
    pub from: Object,
    pub to: Object,
    pub extent: Extent,
    pub kind: c_int,
}

// SAFETY: plain data; what its pointers point to is the program's affair.
unsafe impl Send for Memcpy3DParms {}
// SAFETY: as above.
unsafe impl Sync for Memcpy3DParms {}

/// `cudaMemcpy3DPeerParms`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Memcpy3DPeerParms {
    pub from: Object,
    pub from_device: c_int,
    pub to: Object,
    pub to_device: c_int,
    pub extent: Extent,
}

impl Object {
    /// Bytes of an element; `None` for pitched memory.
    fn element(&self) -> Result<Option<usize>> {
        match (self.array, self.ptr.ptr.is_null()) {
            (0, false) => Ok(None),
            (0, true) => Err(Error::INVALID_VALUE),
            (array, true) => Ok(Some(array::find(array)?.element())),
            (_, false) => Err(Error::INVALID_VALUE),
        }
    }

    fn side(&self, size: &Size) -> Result<Side> {
        let Pos { x, y, z } = self.pos;
        if self.array != 0 {
            let array = array::find(self.array)?;
            return array.side([x * array.element(), y, z], size);
        }
        let PitchedPtr { pitch, ysize, .. } = self.ptr;
        if x + size.width > pitch && size.bytes() > 0 {
            let is_row = size.height == 1 && size.depth == 1;
            return Err(if is_row {
                Error::INVALID_VALUE
            } else {
                Error::INVALID_PITCH
            });
        }
        if size.depth > 1 && y + size.height > ysize {
            return Err(Error::INVALID_VALUE);
        }
        let side = self.ptr.side();
        let at = side.at + z * side.slice + y * pitch + x;
        Ok(Side { at, ..side })
    }
}

impl Memcpy3DParms {
    /// What is copied, in bytes.
    ///
    /// # Errors
    /// `INVALID_VALUE` and `INVALID_PITCH` for objects that are none or too small.
    pub fn copy(&self) -> Result<Copy> {
        let elements = (self.to.element()?, self.from.element()?);
        let element = match elements {
            (Some(to), Some(from)) if to != from => return Err(Error::INVALID_VALUE),
            (to, from) => to.or(from).unwrap_or(1),
        };
        let Extent { width, height, depth } = self.extent;
        let size = Size {
            width: width.checked_mul(element).ok_or(Error::INVALID_VALUE)?,
            height,
            depth,
        };
        Ok(Copy {
            to: self.to.side(&size)?,
            from: self.from.side(&size)?,
            size,
        })
    }
}

/// Reads the caller's description.
fn read<T: std::marker::Copy>(parameters: *const T) -> Result<T> {
    // SAFETY: null or a description, as CUDA's contract has it.
    unsafe { parameters.as_ref() }
        .copied()
        .ok_or(Error::INVALID_VALUE)
}

fn peer(parameters: *const Memcpy3DPeerParms) -> Result<Copy> {
    let Memcpy3DPeerParms {
        from,
        from_device,
        to,
        to_device,
        extent,
    } = read(parameters)?;
    node()?.gpu(from_device)?;
    node()?.gpu(to_device)?;
    let kind = BY_ADDRESS;
    Memcpy3DParms {
        from,
        to,
        extent,
        kind,
    }
    .copy()
}

runtime! {
    fn cudaMemcpy3D(parameters: *const Memcpy3DParms) {
        let parameters = read(parameters)?;
        now(parameters.copy()?, parameters.kind)
    }

    fn cudaMemcpy3DAsync(parameters: *const Memcpy3DParms, stream: usize) {
        let parameters = read(parameters)?;
        later(parameters.copy()?, parameters.kind, stream)
    }

    fn cudaMemcpy3DPeer(parameters: *const Memcpy3DPeerParms) {
        now_by_devices(peer(parameters)?, BY_ADDRESS)
    }

    fn cudaMemcpy3DPeerAsync(parameters: *const Memcpy3DPeerParms, stream: usize) {
        later_by_devices(peer(parameters)?, BY_ADDRESS, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<Memcpy3DParms>(), 160);
        assert_eq!(std::mem::offset_of!(Memcpy3DParms, extent), 128);
        assert_eq!(std::mem::offset_of!(Memcpy3DPeerParms, to), 72);
        assert_eq!(size_of::<Memcpy3DPeerParms>(), 168);
    }
}
