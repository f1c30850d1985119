//! Arrays: memory that programs know only by a handle. A device would lay it out as its texture units like
//! it; here its rows lie one after another.

use std::collections::BTreeMap;

use mgb_abi::array::*;
use mgb_abi::copy3d::CudaExtent;
use parking_lot::RwLock;

use super::region::{Side, Size};
use crate::error::{Error, Result};
use crate::texture::texels::{Format, Texels};

/// An array in device memory.
#[derive(Clone, Copy, Debug)]
pub struct DeviceArray {
    /// What an element is.
    pub format: ChannelFormatDesc,
    /// As it was asked for: a height or depth of zero means fewer dimensions.
    pub extent: CudaExtent,
    /// As it was asked for.
    pub flags: u32,
    /// The ordinal of the device.
    pub ordinal: usize,
    base: usize,
}

static ARRAYS: RwLock<BTreeMap<usize, DeviceArray>> = RwLock::new(BTreeMap::new());

/// Handles are numbers that are no addresses of anything.
const FIRST_HANDLE: usize = 0xa44a_0000_0000;

/// Bytes of an element.
///
/// # Errors
/// `INVALID_CHANNEL_DESCRIPTOR` for what no device has.
pub fn element(format: &ChannelFormatDesc) -> Result<usize> {
    let bits = format.bits();
    let channels = bits.iter().take_while(|&&bits| bits != 0).count();
    let alike = bits[..channels].iter().all(|&other| other == bits[0]);
    let rest = bits[channels..].iter().all(|&other| other == 0);
    let sound = matches!(channels, 1 | 2 | 4) && matches!(bits[0], 8 | 16 | 32) && alike && rest;
    if !sound || !(0..=2).contains(&format.f) || (format.f == 2 && bits[0] == 8) {
        return Err(Error::INVALID_CHANNEL_DESCRIPTOR);
    }
    Ok(bits[0] as usize / 8 * channels)
}

/// An array of a device, without memory yet, and the bytes that it needs.
///
/// # Errors
/// `INVALID_VALUE` for shapes and flags that there are not, `INVALID_CHANNEL_DESCRIPTOR`,
/// `MEMORY_ALLOCATION`.
pub fn plan(
    ordinal: usize,
    format: ChannelFormatDesc,
    extent: CudaExtent,
    flags: u32,
) -> Result<(DeviceArray, usize)> {
    let layered = flags & ARRAY_LAYERED != 0;
    let cube = flags & ARRAY_CUBEMAP != 0;
    let sixes =
        extent.width == extent.height && extent.depth.is_multiple_of(6) && (layered || extent.depth == 6);
    let hole = extent.height == 0 && extent.depth != 0 && !layered;
    if flags & !(ARRAY_LAYERED | ARRAY_SURFACE_LOAD_STORE | ARRAY_CUBEMAP | ARRAY_TEXTURE_GATHER) != 0
        || extent.width == 0
        || hole
        || (layered && extent.depth == 0)
        || (cube && !sixes)
    {
        return Err(Error::INVALID_VALUE);
    }
    let array = DeviceArray {
        format,
        extent,
        flags,
        ordinal,
        base: 0,
    };
    element(&format)?;
    let size = [array.rows(), array.planes()]
        .into_iter()
        .try_fold(array.row_bytes(), usize::checked_mul)
        .ok_or(Error::MEMORY_ALLOCATION)?;
    Ok((array, size))
}

/// Keeps an array whose memory begins at `base`; returns its handle.
pub fn keep(array: DeviceArray, base: usize) -> usize {
    let mut arrays = ARRAYS.write();
    let handle = arrays
        .last_key_value()
        .map_or(FIRST_HANDLE, |(last, _)| last + 64);
    arrays.insert(handle, DeviceArray { base, ..array });
    handle
}

/// The array that a handle names.
///
/// # Errors
/// `INVALID_HANDLE`.
pub fn find(handle: usize) -> Result<DeviceArray> {
    ARRAYS.read().get(&handle).copied().ok_or(Error::INVALID_HANDLE)
}

/// The array in whose memory a side of a copy of this size lies, and the bytes, rows and planes into it; none
/// where it is no box of an array.
pub fn position(side: &Side, size: &Size) -> Option<(usize, [usize; 3])> {
    let arrays = ARRAYS.read();
    let holds = |array: &DeviceArray| (array.base..array.base + array.bytes()).contains(&side.at);
    let (&handle, array) = arrays.iter().find(|(_, array)| holds(array))?;
    let (pitch, slice) = (array.row_bytes(), array.row_bytes() * array.rows());
    let offset = side.at - array.base;
    let position = [offset % pitch, offset % slice / pitch, offset / slice];
    let found = array.side(position, size).ok()?;
    let same =
        (size.height <= 1 || found.pitch == side.pitch) && (size.depth <= 1 || found.slice == side.slice);
    same.then_some((handle, position))
}

/// Drops a handle; returns the address of the array's memory, which the caller frees.
///
/// # Errors
/// `INVALID_VALUE` if there is no such array.
pub fn destroy(handle: usize) -> Result<usize> {
    let array = ARRAYS.write().remove(&handle).ok_or(Error::INVALID_VALUE)?;
    Ok(array.base)
}

/// Drops the handles of a device whose context goes.
pub fn forget(ordinal: usize) {
    ARRAYS.write().retain(|_, array| array.ordinal != ordinal);
}

impl DeviceArray {
    /// Bytes of an element.
    pub fn element(&self) -> usize {
        element(&self.format).unwrap_or(1)
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.extent.width.saturating_mul(self.element())
    }

    fn rows(&self) -> usize {
        self.extent.height.max(1)
    }

    fn planes(&self) -> usize {
        self.extent.depth.max(1)
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.row_bytes() * self.rows() * self.planes()
    }

    /// Its elements, for textures and surfaces.
    pub fn texels(&self) -> Texels {
        let pitch = self.row_bytes();
        let cube = self.flags & ARRAY_CUBEMAP != 0;
        Texels {
            base: self.base,
            format: Format::of(&self.format),
            size: [self.extent.width, self.rows(), self.planes()],
            pitch,
            slice: pitch * self.rows(),
            layered: cube || self.flags & ARRAY_LAYERED != 0,
            cube,
        }
    }

    /// The box of this size whose first byte is `x` bytes, `y` rows and `z` planes into the array.
    ///
    /// # Errors
    /// `INVALID_VALUE` where it does not lie in the array.
    pub fn side(&self, [x, y, z]: [usize; 3], size: &Size) -> Result<Side> {
        let (pitch, slice) = (self.row_bytes(), self.row_bytes() * self.rows());
        let within = |from: usize, length: usize, whole: usize| {
            from.checked_add(length).is_some_and(|end| end <= whole)
        };
        let inside = within(x, size.width, pitch)
            && within(y, size.height, self.rows())
            && within(z, size.depth, self.planes());
        if !inside {
            return Err(Error::INVALID_VALUE);
        }
        Ok(Side {
            at: self.base + z * slice + y * pitch + x,
            pitch,
            slice,
        })
    }

    /// `count` bytes, row after row, from `x` bytes and `y` rows on.
    ///
    /// # Errors
    /// `INVALID_VALUE` where there are not so many.
    pub fn run(&self, x: usize, y: usize, count: usize) -> Result<usize> {
        let from = y
            .checked_mul(self.row_bytes())
            .and_then(|row| row.checked_add(x))
            .ok_or(Error::INVALID_VALUE)?;
        if from.checked_add(count).is_none_or(|end| end > self.bytes()) {
            return Err(Error::INVALID_VALUE);
        }
        Ok(self.base + from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_of_an_array_is_found_by_its_address() {
        let format = ChannelFormatDesc {
            x: 32,
            y: 0,
            z: 0,
            w: 0,
            f: 2,
        };
        let extent = CudaExtent {
            width: 16,
            height: 8,
            depth: 4,
        };
        let (planned, bytes) = plan(0, format, extent, 0).unwrap();
        let base = 0x7000_0000_0000;
        let handle = keep(planned, base);
        let array = find(handle).unwrap();
        for (at, size) in [
            (
                [0, 0, 0],
                Size {
                    width: 64,
                    height: 8,
                    depth: 4,
                },
            ),
            (
                [4, 3, 2],
                Size {
                    width: 60,
                    height: 5,
                    depth: 2,
                },
            ),
            (
                [60, 7, 3],
                Size {
                    width: 4,
                    height: 1,
                    depth: 1,
                },
            ),
        ] {
            let side = array.side(at, &size).unwrap();
            assert_eq!(position(&side, &size), Some((handle, at)));
        }
        // Bytes that run on in the next row are no box, nor is what lies behind.
        assert_eq!(position(&Side::plain(base + 60), &Size::row(8)), None);
        assert_eq!(position(&Side::plain(base + bytes), &Size::row(1)), None);
        // Neither are rows that are further apart than the array's.
        assert_eq!(position(&Side::rows(base, 128), &Size::plane(64, 2)), None);
        destroy(handle).unwrap();
    }
}
