//! The driver's functions for arrays.

use std::ffi::{c_int, c_uint};

use mgb_abi::array::*;
use mgb_abi::copy3d::CudaExtent;

use super::{current, driver};
use crate::address::{self, take_back};
use crate::device::{Gpu, node};
use crate::entry::put;
use crate::error::{Error, Result};
use crate::memory::array;
use crate::memory::heap::AllocationUse;

/// `cudaChannelFormatKind` and bits of a channel, by `CUarray_format`.
const FORMATS: [(u32, c_int, c_int); 8] = [
    (FORMAT_SIGNED_INT8, 0, 8),
    (FORMAT_SIGNED_INT16, 0, 16),
    (FORMAT_SIGNED_INT32, 0, 32),
    (FORMAT_UNSIGNED_INT8, 1, 8),
    (FORMAT_UNSIGNED_INT16, 1, 16),
    (FORMAT_UNSIGNED_INT32, 1, 32),
    (FORMAT_HALF, 2, 16),
    (FORMAT_FLOAT, 2, 32),
];

/// An array in the driver's structure.
///
/// # Errors
/// `INVALID_CHANNEL_DESCRIPTOR` for a format that the driver has no name for.
pub fn described(format: ChannelFormatDesc, extent: CudaExtent, flags: c_uint) -> Result<Array3DDescriptor> {
    let of = |&&(_, kind, bits): &&(u32, c_int, c_int)| (kind, bits) == (format.f, format.x);
    let known = FORMATS.iter().find(of).ok_or(Error::INVALID_CHANNEL_DESCRIPTOR)?;
    let CudaExtent { width, height, depth } = extent;
    let channels = format.bits().iter().filter(|&&bits| bits != 0).count() as c_uint;
    Ok(Array3DDescriptor {
        width,
        height,
        depth,
        format: known.0,
        channels,
        flags,
    })
}

/// The runtime's description of elements that the driver describes so.
///
/// # Errors
/// `INVALID_VALUE` for a format that softgpu does not have.
pub fn format_of(format: u32, channels: c_uint) -> Result<ChannelFormatDesc> {
    let known = FORMATS.iter().find(|known| known.0 == format);
    let &(_, f, bits) = known.ok_or(Error::INVALID_VALUE)?;
    let channel = |at: c_uint| if at < channels { bits } else { 0 };
    if channels > 4 {
        return Err(Error::INVALID_VALUE);
    }
    Ok(ChannelFormatDesc {
        x: channel(0),
        y: channel(1),
        z: channel(2),
        w: channel(3),
        f,
    })
}

/// Makes an array on a device; returns its handle.
///
/// # Errors
/// Those of [`array::plan`], `MEMORY_ALLOCATION`.
pub fn create(gpu: &Gpu, format: ChannelFormatDesc, extent: CudaExtent, flags: c_uint) -> Result<usize> {
    let (planned, size) = array::plan(gpu.ordinal, format, extent, flags)?;
    Ok(array::keep(
        planned,
        address::allocate(gpu, size, AllocationUse::Array)?,
    ))
}

/// Ends an array, after the work of its device, which may use it.
///
/// # Errors
/// `INVALID_HANDLE` for no array.
pub fn destroy(handle: usize) -> Result {
    node()?
        .gpu(array::find(handle)?.ordinal as c_int)?
        .streams
        .finish();
    take_back(array::destroy(handle)?)
}

fn make(to: *mut usize, wanted: &Array3DDescriptor) -> Result {
    let gpu = current()?;
    let &Array3DDescriptor {
        width,
        height,
        depth,
        format,
        channels,
        flags,
    } = wanted;
    if to.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let extent = CudaExtent { width, height, depth };
    put!(to, create(gpu, format_of(format, channels)?, extent, flags)?);
    Ok(())
}

fn descriptor(handle: usize) -> Result<Array3DDescriptor> {
    let array = array::find(handle)?;
    described(array.format, array.extent, array.flags)
}

driver! {
    fn cuArrayCreate_v2(array: *mut usize, wanted: *const ArrayDescriptor) {
        // SAFETY: `wanted` is null or valid for reads: CUDA's contract of the function.
        let wanted = unsafe { wanted.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        let &ArrayDescriptor { width, height, format, channels } = wanted;
        make(array, &Array3DDescriptor { width, height, depth: 0, format, channels, flags: 0 })
    }

    fn cuArray3DCreate_v2(array: *mut usize, wanted: *const Array3DDescriptor) {
        // SAFETY: `wanted` is null or valid for reads: CUDA's contract of the function.
        make(array, unsafe { wanted.as_ref() }.ok_or(Error::INVALID_VALUE)?)
    }

    fn cuArrayDestroy(array: usize) {
        current()?;
        destroy(array)
    }

    fn cuArrayGetDescriptor_v2(to: *mut ArrayDescriptor, array: usize) {
        let Array3DDescriptor { width, height, format, channels, .. } = descriptor(array)?;
        put!(to, ArrayDescriptor { width, height, format, channels });
        Ok(())
    }

    fn cuArray3DGetDescriptor_v2(to: *mut Array3DDescriptor, array: usize) {
        put!(to, descriptor(array)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names_in_both_interfaces() {
        let extent = CudaExtent {
            width: 3,
            height: 2,
            depth: 0,
        };
        for (name, f, bits) in FORMATS {
            for channels in [1, 2, 4] {
                let format = format_of(name, channels).unwrap();
                assert_eq!((format.f, format.x), (f, bits));
                let described = described(format, extent, ARRAY_LAYERED).unwrap();
                assert_eq!((described.format, described.channels), (name, channels));
            }
        }
        assert_eq!(format_of(0x7f, 1), Err(Error::INVALID_VALUE));
    }
}
