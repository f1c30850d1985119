//! Copies of boxes between memory and arrays, and copies between devices.

use std::ffi::c_void;

use mgb_abi::copy::{DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST};
use mgb_abi::copy3d::{
    DriverCopy2D, DriverCopy3D, DriverSide2D, DriverSide3D, MEMORYTYPE_ARRAY, MEMORYTYPE_DEVICE,
    MEMORYTYPE_HOST, MEMORYTYPE_UNIFIED,
};

use super::copy::{later, now};
use super::{driver, gpu_of, stream};
use crate::error::{Error, Result};
use crate::graph::capture;
use crate::memory::array;
use crate::memory::region::{Side, Size};
use crate::submit;
use crate::transfer::{MemoryCopy, Transfer};

/// A side whose first byte is that of the memory.
const WHOLE: DriverSide3D = DriverSide3D {
    x_in_bytes: 0,
    y: 0,
    z: 0,
    lod: 0,
    memory_type: 0,
    host: std::ptr::null_mut(),
    device: 0,
    array: 0,
    context: 0,
    pitch: 0,
    height: 0,
};

/// A copy of this kind, one of `cudaMemcpyKind`, in the driver's structure.
pub fn described(copy: &MemoryCopy, kind: u32) -> DriverCopy3D {
    let (from_device, to_device) = match kind {
        HOST_TO_HOST => (Some(false), Some(false)),
        HOST_TO_DEVICE => (Some(false), Some(true)),
        DEVICE_TO_HOST => (Some(true), Some(false)),
        DEVICE_TO_DEVICE => (Some(true), Some(true)),
        _ => (None, None),
    };
    let Size { width, height, depth } = copy.size;
    DriverCopy3D {
        src: described_side(&copy.from, &copy.size, from_device),
        dst: described_side(&copy.to, &copy.size, to_device),
        width_in_bytes: width,
        height,
        depth,
    }
}

/// `device`: whether the kind says that it is a device's.
fn described_side(side: &Side, size: &Size, device: Option<bool>) -> DriverSide3D {
    let memory_type = match device {
        Some(false) => {
            let host = side.at as *mut c_void;
            return DriverSide3D {
                memory_type: MEMORYTYPE_HOST,
                host,
                ..strides(side, size)
            };
        }
        Some(true) => MEMORYTYPE_DEVICE,
        None => MEMORYTYPE_UNIFIED,
    };
    if let Some((array, [x_in_bytes, y, z])) = array::position(side, size) {
        return DriverSide3D {
            memory_type: MEMORYTYPE_ARRAY,
            array,
            x_in_bytes,
            y,
            z,
            ..WHOLE
        };
    }
    DriverSide3D {
        memory_type,
        device: side.at,
        ..strides(side, size)
    }
}

/// Where there is only one row or plane, what would lie between them is of no meaning.
fn strides(side: &Side, size: &Size) -> DriverSide3D {
    let pitch = side.pitch.max(size.width);
    let height = if size.depth > 1 {
        side.slice / pitch
    } else {
        size.height
    };
    DriverSide3D {
        pitch,
        height,
        ..WHOLE
    }
}

/// The same for a copy between first planes; none for another one.
pub fn flat(copy: &DriverCopy3D) -> Option<DriverCopy2D> {
    if copy.depth != 1 || copy.src.z != 0 || copy.dst.z != 0 {
        return None;
    }
    let flat = |side: &DriverSide3D| DriverSide2D {
        x_in_bytes: side.x_in_bytes,
        y: side.y,
        memory_type: side.memory_type,
        host: side.host,
        device: side.device,
        array: side.array,
        pitch: side.pitch,
    };
    Some(DriverCopy2D {
        src: flat(&copy.src),
        dst: flat(&copy.dst),
        width_in_bytes: copy.width_in_bytes,
        height: copy.height,
    })
}

fn raised(copy: &DriverCopy2D) -> DriverCopy3D {
    let raised = |side: &DriverSide2D| DriverSide3D {
        x_in_bytes: side.x_in_bytes,
        y: side.y,
        memory_type: side.memory_type,
        host: side.host,
        device: side.device,
        array: side.array,
        pitch: side.pitch,
        ..WHOLE
    };
    DriverCopy3D {
        src: raised(&copy.src),
        dst: raised(&copy.dst),
        width_in_bytes: copy.width_in_bytes,
        height: copy.height,
        depth: 1,
    }
}

fn side_of(described: &DriverSide3D, size: &Size) -> Result<Side> {
    let &DriverSide3D {
        x_in_bytes,
        y,
        z,
        pitch,
        height,
        ..
    } = described;
    let base = match described.memory_type {
        MEMORYTYPE_HOST => described.host as usize,
        MEMORYTYPE_DEVICE | MEMORYTYPE_UNIFIED => described.device,
        MEMORYTYPE_ARRAY => return array::find(described.array)?.side([x_in_bytes, y, z], size),
        _ => return Err(Error::INVALID_VALUE),
    };
    let ends = |start: usize, length: usize| start.checked_add(length).ok_or(Error::INVALID_VALUE);
    let rows = size.height > 1 || size.depth > 1;
    if (rows && ends(x_in_bytes, size.width)? > pitch) || (size.depth > 1 && ends(y, size.height)? > height) {
        return Err(Error::INVALID_VALUE);
    }
    let at = || {
        let slice = pitch.checked_mul(height)?;
        let rows = z.checked_mul(slice)?.checked_add(y.checked_mul(pitch)?)?;
        let at = base.checked_add(rows)?.checked_add(x_in_bytes)?;
        Some(Side { at, pitch, slice })
    };
    at().ok_or(Error::INVALID_VALUE)
}

/// The copy that a structure describes, and its kind.
///
/// # Errors
/// `INVALID_VALUE` for sides that name no memory, or too little of it; `INVALID_HANDLE` for no array.
pub fn copy_of(described: &DriverCopy3D) -> Result<(MemoryCopy, u32)> {
    let &DriverCopy3D {
        src,
        dst,
        width_in_bytes,
        height,
        depth,
    } = described;
    let size = Size {
        width: width_in_bytes,
        height,
        depth,
    };
    let copy = MemoryCopy {
        to: side_of(&dst, &size)?,
        from: side_of(&src, &size)?,
        size,
    };
    let on_device = |side: &DriverSide3D| match side.memory_type {
        MEMORYTYPE_HOST => Some(false),
        MEMORYTYPE_UNIFIED => None,
        _ => Some(true),
    };
    let kind = match (on_device(&src), on_device(&dst)) {
        (Some(false), Some(false)) => HOST_TO_HOST,
        (Some(false), Some(true)) => HOST_TO_DEVICE,
        (Some(true), Some(false)) => DEVICE_TO_HOST,
        (Some(true), Some(true)) => DEVICE_TO_DEVICE,
        _ => DEFAULT,
    };
    Ok((copy, kind))
}

/// Reads the caller's structure.
fn read<T: std::marker::Copy>(structure: *const T) -> Result<T> {
    // SAFETY: null or valid for reads: CUDA's contract of the functions that pass it.
    unsafe { structure.as_ref() }.copied().ok_or(Error::INVALID_VALUE)
}

fn plane(structure: *const DriverCopy2D) -> Result<(MemoryCopy, u32)> {
    copy_of(&raised(&read(structure)?))
}

fn planes(structure: *const DriverCopy3D) -> Result<(MemoryCopy, u32)> {
    copy_of(&read(structure)?)
}

/// The same, for a structure that names a context for each side that is no array.
fn peers(structure: *const DriverCopy3D) -> Result<(MemoryCopy, u32)> {
    let structure = read(structure)?;
    for side in [&structure.src, &structure.dst] {
        if side.memory_type != MEMORYTYPE_ARRAY {
            gpu_of(side.context)?;
        }
    }
    copy_of(&structure)
}

/// Copies between devices that the call names, and waits for it.
fn named_now((what, kind): (MemoryCopy, u32)) -> Result {
    let (gpu, stream) = stream(0)?;
    if what.size.bytes() == 0 {
        return Ok(());
    }
    submit::transfer_and_wait(gpu, &stream, Transfer::of_named(gpu, what, kind)?)
}

/// Copies between devices that the call names, in a stream's turn: no capture records it.
fn named_later((what, kind): (MemoryCopy, u32), handle: usize) -> Result {
    let (gpu, stream) = stream(handle)?;
    if what.size.bytes() == 0 {
        return Ok(());
    }
    capture::refuse(&stream)?;
    submit::transfer(gpu, &stream, Transfer::of_named(gpu, what, kind)?)
}

fn between(
    to: usize,
    to_context: usize,
    from: usize,
    from_context: usize,
    count: usize,
) -> Result<(MemoryCopy, u32)> {
    gpu_of(to_context)?;
    gpu_of(from_context)?;
    Ok((MemoryCopy::bytes(to, from, count), DEVICE_TO_DEVICE))
}

driver! {
    fn cuMemcpy2D_v2(structure: *const DriverCopy2D) {
        let (what, kind) = plane(structure)?;
        now(what, kind)
    }

    fn cuMemcpy2DUnaligned_v2(structure: *const DriverCopy2D) {
        let (what, kind) = plane(structure)?;
        now(what, kind)
    }

    fn cuMemcpy2DAsync_v2(structure: *const DriverCopy2D, stream: usize) {
        let (what, kind) = plane(structure)?;
        later(what, kind, stream)
    }

    fn cuMemcpy3D_v2(structure: *const DriverCopy3D) {
        let (what, kind) = planes(structure)?;
        now(what, kind)
    }

    fn cuMemcpy3DAsync_v2(structure: *const DriverCopy3D, stream: usize) {
        let (what, kind) = planes(structure)?;
        later(what, kind, stream)
    }

    fn cuMemcpy3DPeer(structure: *const DriverCopy3D) {
        named_now(peers(structure)?)
    }

    fn cuMemcpy3DPeerAsync(structure: *const DriverCopy3D, stream: usize) {
        named_later(peers(structure)?, stream)
    }

    fn cuMemcpyPeer(to: usize, to_context: usize, from: usize, from_context: usize, count: usize) {
        named_now(between(to, to_context, from, from_context, count)?)
    }

    fn cuMemcpyPeerAsync(
        to: usize, to_context: usize, from: usize, from_context: usize, count: usize, stream: usize,
    ) {
        named_later(between(to, to_context, from, from_context, count)?, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(copy: MemoryCopy, kind: u32) {
        let structure = described(&copy, kind);
        let (read, read_kind) = copy_of(&structure).unwrap();
        assert_eq!(read_kind, kind, "{structure:?}");
        assert_eq!(read.size, copy.size);
        for (side, read) in [(copy.to, read.to), (copy.from, read.from)] {
            let rows = |side: Side| copy.size.rows(side, side).collect::<Vec<_>>();
            assert_eq!(rows(side), rows(read), "{structure:?}");
        }
    }

    #[test]
    fn a_structure_says_what_the_copy_is() {
        let side = |at, pitch, slice| Side { at, pitch, slice };
        let size = |width, height, depth| Size { width, height, depth };
        for kind in [
            HOST_TO_HOST,
            HOST_TO_DEVICE,
            DEVICE_TO_HOST,
            DEVICE_TO_DEVICE,
            DEFAULT,
        ] {
            for (to, from, size) in [
                (side(4096, 0, 0), side(8192, 0, 0), size(100, 1, 1)),
                (side(4096, 512, 0), side(8200, 100, 0), size(100, 7, 1)),
                (side(4100, 512, 5120), side(8192, 100, 700), size(90, 7, 3)),
                (side(4096, 512, 512), side(8192, 64, 128), size(64, 1, 3)),
            ] {
                same(MemoryCopy { to, from, size }, kind);
            }
        }
    }

    #[test]
    fn only_first_planes_are_flat() {
        let copy = MemoryCopy {
            to: Side::rows(4096, 64),
            from: Side::rows(8192, 64),
            size: Size::plane(64, 2),
        };
        let plane = described(&copy, DEFAULT);
        let (read, _) = copy_of(&raised(&flat(&plane).unwrap())).unwrap();
        let rows = |copy: MemoryCopy| copy.size.rows(copy.to, copy.from).collect::<Vec<_>>();
        assert_eq!(rows(read), rows(copy));
        let second = DriverCopy3D {
            dst: DriverSide3D { z: 1, ..plane.dst },
            ..plane
        };
        assert!(flat(&second).is_none() && flat(&DriverCopy3D { depth: 2, ..plane }).is_none());
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let copy = MemoryCopy {
            to: Side::rows(4096, 64),
            from: Side::rows(8192, 64),
            size: Size::plane(64, 2),
        };
        let good = described(&copy, DEFAULT);
        let wide = DriverCopy3D {
            width_in_bytes: 65,
            ..good
        };
        let tall = DriverCopy3D {
            depth: 2,
            height: 3,
            ..good
        };
        let far = DriverCopy3D {
            dst: DriverSide3D {
                y: usize::MAX,
                ..good.dst
            },
            ..good
        };
        let nowhere = DriverCopy3D {
            dst: DriverSide3D {
                memory_type: 9,
                ..good.dst
            },
            ..good
        };
        for bad in [wide, tall, far, nowhere] {
            assert_eq!(copy_of(&bad), Err(Error::INVALID_VALUE), "{bad:?}");
        }
    }
}
