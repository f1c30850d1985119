//! Copies and discards by batches: in a stream's order as a whole, in any order among themselves.

use std::ffi::c_void;

use mgb_abi::copy::{
    DEFAULT, MemcpyAttributes, SRC_ACCESS_ANY, SRC_ACCESS_DURING_API_CALL, SRC_ACCESS_STREAM,
};
use mgb_abi::copy3d::*;
use mgb_abi::location::MemLocation;

use super::arguments::{exists, own_stream};
use super::copy3d::copy_of;
use super::{dispatch, managed, runtime};
use crate::address::locate;
use crate::device::resolve;
use crate::error::{Error, Result};
use crate::memory::array;
use crate::transfer::MemoryCopy;
use crate::transfer::Transfer;

/// The caller's array of so many, of which there must be some.
fn list<'a, T>(pointer: *const T, count: usize) -> Result<&'a [T]> {
    if pointer.is_null() || count == 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: `pointer` is not null and has `count` elements: CUDA's contract of the functions that pass it.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Which of the parts that begin at `starts` each of `count` belongs to.
///
/// # Errors
/// `INVALID_VALUE` unless the first begins at zero, and each after the one before.
fn parts(starts: &[usize], count: usize) -> Result<impl Iterator<Item = usize> + '_> {
    let rising = starts.windows(2).all(|pair| pair[0] < pair[1]);
    if starts[0] != 0 || !rising || starts.last().is_none_or(|&last| last >= count) {
        return Err(Error::INVALID_VALUE);
    }
    Ok((0..count).map(|at| starts.partition_point(|&start| start <= at) - 1))
}

fn hints(order: u32, flags: u32) -> Result {
    if matches!(order, SRC_ACCESS_STREAM..=SRC_ACCESS_ANY) && flags <= 1 {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
    }
}

/// Does all copies, or none where one of them is wrong.
fn perform(all: &[(MemoryCopy, u32)], handle: usize) -> Result {
    own_stream(handle)?;
    let (gpu, stream) = resolve::stream(handle)?;
    for (what, _) in all {
        Transfer::new(gpu, *what, DEFAULT)?;
    }
    for &(what, order) in all {
        if order == SRC_ACCESS_DURING_API_CALL && locate(what.from.at).is_host() && !stream.captures() {
            dispatch::copy_in(gpu, &stream, handle, what, DEFAULT)?;
        } else {
            dispatch::copy_async(gpu, &stream, handle, what, DEFAULT)?;
        }
    }
    Ok(())
}

/// An operand as the other functions describe it; `element` is the size of what a pointer points to.
fn side_of(operand: &Memcpy3DOperand, element: usize, extent: &CudaExtent) -> Result<CopySide> {
    let &Memcpy3DOperand {
        kind,
        object,
        row_length,
        layer_height,
        ..
    } = operand;
    match kind {
        OPERAND_POINTER => {
            let or = |value: usize, other: usize| if value == 0 { other } else { value };
            let (row, rows) = (or(row_length, extent.width), or(layer_height, extent.height));
            if row < extent.width || rows < extent.height {
                return Err(Error::INVALID_VALUE);
            }
            Ok(CopySide::pitched(PitchedPtr {
                ptr: object as *mut c_void,
                pitch: row.checked_mul(element).ok_or(Error::INVALID_VALUE)?,
                xsize: row,
                ysize: rows,
            }))
        }
        OPERAND_ARRAY => {
            let pos = Pos {
                x: row_length,
                y: layer_height,
                z: operand.z(),
            };
            Ok(CopySide::array(object as *mut c_void, pos))
        }
        _ => Err(Error::INVALID_VALUE),
    }
}

/// Bytes of an element of an array; `None` for a pointer.
fn element(operand: &Memcpy3DOperand) -> Result<Option<usize>> {
    match operand.kind {
        OPERAND_ARRAY => Ok(Some(array::find(operand.object)?.element())),
        _ => Ok(None),
    }
}

fn box_of(one: &Memcpy3DBatchOp) -> Result<MemoryCopy> {
    let element = element(&one.src)?.or(element(&one.dst)?).unwrap_or(1);
    copy_of(&Memcpy3DParms {
        src: side_of(&one.src, element, &one.extent)?,
        dst: side_of(&one.dst, element, &one.extent)?,
        extent: one.extent,
        kind: DEFAULT,
    })
}

runtime! {
    fn cudaMemcpyBatchAsync(
        to: *const *mut c_void, from: *const *const c_void, sizes: *const usize, count: usize,
        attributes: *const MemcpyAttributes, starts: *const usize, attribute_count: usize, stream: usize,
    ) {
        let (to, from, sizes) = (list(to, count)?, list(from, count)?, list(sizes, count)?);
        let (attributes, starts) = (list(attributes, attribute_count)?, list(starts, attribute_count)?);
        for attributes in attributes {
            hints(attributes.src_access_order, attributes.flags)?;
            exists(attributes.src_location_hint)?;
            exists(attributes.dst_location_hint)?;
        }
        let parts = parts(starts, count)?;
        let copies = parts.enumerate().map(|(at, part)| {
            let copy = MemoryCopy::bytes(to[at] as usize, from[at] as usize, sizes[at]);
            (copy, attributes[part].src_access_order)
        });
        perform(&copies.collect::<Vec<_>>(), stream)
    }

    fn cudaMemcpy3DBatchAsync(count: usize, boxes: *const Memcpy3DBatchOp, flags: u64, stream: usize) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let copies = list(boxes, count)?.iter().map(|one| {
            hints(one.src_access_order, one.flags)?;
            Ok((box_of(one)?, one.src_access_order))
        });
        perform(&copies.collect::<Result<Vec<_>>>()?, stream)
    }

    fn cudaMemDiscardBatchAsync(
        pointers: *const *mut c_void, sizes: *const usize, count: usize, flags: u64, stream: usize,
    ) {
        let (pointers, sizes) = (list(pointers, count)?, list(sizes, count)?);
        own_stream(stream)?;
        resolve::stream(stream)?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        // CUDA leaves the contents undefined, so they may stay what they were.
        pointers.iter().zip(sizes).try_for_each(|(&pointer, &size)| managed::check(pointer, size).map(drop))
    }

    fn cudaMemDiscardAndPrefetchBatchAsync(
        pointers: *const *mut c_void, sizes: *const usize, count: usize, places: *const MemLocation,
        starts: *const usize, place_count: usize, flags: u64, stream: usize,
    ) {
        let (pointers, sizes) = (list(pointers, count)?, list(sizes, count)?);
        let (places, starts) = (list(places, place_count)?, list(starts, place_count)?);
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        own_stream(stream)?;
        for (at, part) in parts(starts, count)?.enumerate() {
            exists(places[part])?;
            managed::prefetch(pointers[at], sizes[at], places[part], stream)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_begin_at_zero_and_rise() {
        let of = |starts: &[usize], count| parts(starts, count).map(|parts| parts.collect::<Vec<_>>());
        assert_eq!(of(&[0, 2], 4), Ok(vec![0, 0, 1, 1]));
        for starts in [&[1, 2][..], &[0, 2, 2], &[0, 4]] {
            assert_eq!(of(starts, 4), Err(Error::INVALID_VALUE));
        }
    }
}
