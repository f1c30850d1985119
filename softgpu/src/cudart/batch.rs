//! Copies and discards by batches: in a stream's order as a whole, in any order among themselves.

use std::ffi::{c_int, c_uint, c_void};

use super::copy3d::{Memcpy3DParms, Object, Pos};
use super::managed;
use super::memory::{Extent, PitchedPtr};
use super::runtime;
use crate::device::node;
use crate::driver::vmm::Location;
use crate::error::{Error, Result};
use crate::memory::region::Copy;
use crate::memory::transfer::{Transfer, copy, copy_async};
use crate::memory::{array, locate};
use crate::stream::handle;

/// `cudaMemcpyAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// `cudaMemcpySrcAccessOrder`.
    pub order: c_int,
    /// Where the source might be.
    pub from: Location,
    /// Where the destination might be.
    pub to: Location,
    /// `cudaMemcpyFlags`: a hint.
    pub flags: c_uint,
}

/// `cudaMemcpy3DOperand`: for a pointer the address, the elements of a row, the rows of a layer and a hint; for an array
/// its handle and the first element's place.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// 1: a pointer, 2: an array.
    pub kind: c_int,
    /// What that kind has.
    pub body: [usize; 4],
}

/// `cudaMemcpy3DBatchOp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BoxCopy {
    /// The source.
    pub from: Operand,
    /// The destination.
    pub to: Operand,
    /// How much, in elements.
    pub extent: Extent,
    /// `cudaMemcpySrcAccessOrder`.
    pub order: c_int,
    /// `cudaMemcpyFlags`: a hint.
    pub flags: c_uint,
}

/// `cudaMemcpySrcAccessOrderDuringApiCall`: the source is not read once the call has returned.
const DURING_CALL: c_int = 2;

/// The kind of a copy whose pointers say which way it goes.
const BY_ADDRESS: c_int = 4;

/// The caller's array of so many, of which there must be some.
fn list<'a, T>(pointer: *const T, count: usize) -> Result<&'a [T]> {
    if pointer.is_null() || count == 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's array of so many.
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

fn hints(order: c_int, flags: c_uint) -> Result {
    if matches!(order, 1..=3) && flags <= 1 {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
    }
}

/// Batches are in a stream of the program's own, or the thread's.
///
/// # Errors
/// `INVALID_VALUE` for the default stream of all threads.
pub(super) fn own_stream(stream: usize) -> Result {
    if matches!(stream, 0 | 1) && !handle::own_default() {
        return Err(Error::INVALID_VALUE);
    }
    Ok(())
}

/// What a hint names is there, if it names a device.
///
/// # Errors
/// `INVALID_VALUE`.
pub(super) fn exists(place: Location) -> Result {
    if place.kind == managed::DEVICE {
        node()?.gpu(place.id).map_err(|_| Error::INVALID_VALUE)?;
    }
    Ok(())
}

/// Does all copies, or none where one of them is wrong.
fn perform(all: &[(Copy, c_int)], stream: usize) -> Result {
    own_stream(stream)?;
    let (gpu, stream) = handle::resolve(stream)?;
    for (what, _) in all {
        Transfer::new(gpu, *what, BY_ADDRESS)?;
    }
    for &(what, order) in all {
        if order == DURING_CALL && locate(what.from.at).is_host() && !stream.captures() {
            copy(gpu, &stream, what, BY_ADDRESS)?;
        } else {
            copy_async(gpu, &stream, what, BY_ADDRESS)?;
        }
    }
    Ok(())
}

impl Operand {
    /// As the other functions describe it; `element` is the size of what a pointer points to.
    fn object(&self, element: usize, extent: &Extent) -> Result<Object> {
        let [first, row, rows, last] = self.body;
        let nothing = PitchedPtr {
            ptr: std::ptr::null_mut(),
            pitch: 0,
            xsize: 0,
            ysize: 0,
        };
        match self.kind {
            1 => {
                let or = |value: usize, other: usize| if value == 0 { other } else { value };
                let (row, rows) = (or(row, extent.width), or(rows, extent.height));
                if row < extent.width || rows < extent.height {
                    return Err(Error::INVALID_VALUE);
                }
                let ptr = PitchedPtr {
                    ptr: first as *mut c_void,
                    pitch: row.checked_mul(element).ok_or(Error::INVALID_VALUE)?,
                    xsize: row,
                    ysize: rows,
                };
                let pos = Pos { x: 0, y: 0, z: 0 };
                Ok(Object { array: 0, pos, ptr })
            }
            2 => {
                let pos = Pos {
                    x: row,
                    y: rows,
                    z: last,
                };
                Ok(Object {
                    array: first,
                    pos,
                    ptr: nothing,
                })
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }

    fn element(&self) -> Result<Option<usize>> {
        match self.kind {
            2 => Ok(Some(array::find(self.body[0])?.element())),
            _ => Ok(None),
        }
    }
}

impl BoxCopy {
    fn copy(&self) -> Result<Copy> {
        let element = self.from.element()?.or(self.to.element()?).unwrap_or(1);
        let copy = Memcpy3DParms {
            from: self.from.object(element, &self.extent)?,
            to: self.to.object(element, &self.extent)?,
            extent: self.extent,
            kind: BY_ADDRESS,
        };
        copy.copy()
    }
}

runtime! {
    fn cudaMemcpyBatchAsync(to: *const *mut c_void, from: *const *const c_void, sizes: *const usize, count: usize, attributes: *const Attributes, starts: *const usize, attribute_count: usize, stream: usize) {
        let (to, from, sizes) = (list(to, count)?, list(from, count)?, list(sizes, count)?);
        let (attributes, starts) = (list(attributes, attribute_count)?, list(starts, attribute_count)?);
        for attributes in attributes {
            hints(attributes.order, attributes.flags)?;
            exists(attributes.from)?;
            exists(attributes.to)?;
        }
        let parts = parts(starts, count)?;
        let copies = parts.enumerate().map(|(at, part)| {
            let copy = Copy::bytes(to[at] as usize, from[at] as usize, sizes[at]);
            (copy, attributes[part].order)
        });
        perform(&copies.collect::<Vec<_>>(), stream)
    }

    fn cudaMemcpy3DBatchAsync(count: usize, boxes: *const BoxCopy, flags: u64, stream: usize) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let copies = list(boxes, count)?.iter().map(|one| {
            hints(one.order, one.flags)?;
            Ok((one.copy()?, one.order))
        });
        perform(&copies.collect::<Result<Vec<_>>>()?, stream)
    }

    fn cudaMemDiscardBatchAsync(pointers: *const *mut c_void, sizes: *const usize, count: usize, flags: u64, stream: usize) {
        let (pointers, sizes) = (list(pointers, count)?, list(sizes, count)?);
        own_stream(stream)?;
        handle::resolve(stream)?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        // What they hold after that is nobody's to say, so it may be what they held.
        pointers.iter().zip(sizes).try_for_each(|(&pointer, &size)| managed::check(pointer, size).map(drop))
    }

    fn cudaMemDiscardAndPrefetchBatchAsync(pointers: *const *mut c_void, sizes: *const usize, count: usize, places: *const Location, starts: *const usize, place_count: usize, flags: u64, stream: usize) {
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
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<Attributes>(), 24);
        assert_eq!(size_of::<Operand>(), 40);
        assert_eq!(size_of::<BoxCopy>(), 112);
    }

    #[test]
    fn parts_begin_at_zero_and_rise() {
        let of = |starts: &[usize], count| parts(starts, count).map(|parts| parts.collect::<Vec<_>>());
        assert_eq!(of(&[0, 2], 4), Ok(vec![0, 0, 1, 1]));
        for starts in [&[1, 2][..], &[0, 2, 2], &[0, 4]] {
            assert_eq!(of(starts, 4), Err(Error::INVALID_VALUE));
        }
    }
}
