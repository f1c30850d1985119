//! Queries on ranges of managed memory: devices in the answers are the program's.

use std::ffi::c_void;

use mgb_abi::location::LOCATION_DEVICE;
use mgb_abi::managed::{
    RANGE_ACCESSED_BY, RANGE_LAST_PREFETCH_LOCATION, RANGE_LAST_PREFETCH_LOCATION_ID,
    RANGE_PREFERRED_LOCATION, RANGE_PREFERRED_LOCATION_ID,
};

use super::ordinals::program_device;
use super::passthrough;
use crate::code::{Answer, Code};
use crate::{native, thread};

/// Gives an answer the program's numbers.
///
/// # Safety
/// The runtime has answered so.
unsafe fn translate(data: *mut c_void, room: usize, attribute: u32, pointer: *const c_void, count: usize) {
    let is_device = match attribute {
        // Ordinals, or below zero.
        RANGE_PREFERRED_LOCATION | RANGE_ACCESSED_BY | RANGE_LAST_PREFETCH_LOCATION => true,
        // The attribute before it has the location's type.
        RANGE_PREFERRED_LOCATION_ID | RANGE_LAST_PREFETCH_LOCATION_ID => {
            let mut kind = 0i32;
            let to = (&raw mut kind).cast();
            // SAFETY: writes one int.
            let code = unsafe {
                native::cudaMemRangeGetAttribute(to, size_of::<i32>(), attribute - 1, pointer, count)
            };
            code.is_success() && kind == LOCATION_DEVICE
        }
        _ => false,
    };
    if !is_device {
        return;
    }
    // SAFETY: the runtime has written `room` bytes of numbers.
    let answers = unsafe { std::slice::from_raw_parts_mut(data.cast::<i32>(), room / size_of::<i32>()) };
    for answer in answers.iter_mut().filter(|answer| **answer >= 0) {
        *answer = program_device(*answer);
    }
}

type Get = unsafe extern "C" fn(*mut c_void, usize, u32, *const c_void, usize) -> Code;

/// `cudaMemRangeGetAttribute`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemRangeGetAttribute`.
pub unsafe fn get(
    native: Get,
    data: *mut c_void,
    room: usize,
    attribute: u32,
    pointer: *const c_void,
    count: usize,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    // SAFETY: `data` is null or has `room` writable bytes: contract of `cudaMemRangeGetAttribute`.
    let answer = passthrough::run(|| unsafe { native(data, room, attribute, pointer, count) })?;
    if answer.is_success() {
        // SAFETY: it was a success.
        unsafe { translate(data, room, attribute, pointer, count) };
    }
    Ok(answer)
}

type GetAll =
    unsafe extern "C" fn(*mut *mut c_void, *mut usize, *mut u32, usize, *const c_void, usize) -> Code;

/// `cudaMemRangeGetAttributes`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemRangeGetAttributes`.
pub unsafe fn get_all(
    native: GetAll,
    data: *mut *mut c_void,
    rooms: *mut usize,
    attributes: *mut u32,
    attribute_count: usize,
    pointer: *const c_void,
    count: usize,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    // SAFETY: the lists are null or of `attribute_count` elements: contract of `cudaMemRangeGetAttributes`.
    let answer =
        passthrough::run(|| unsafe { native(data, rooms, attributes, attribute_count, pointer, count) })?;
    if answer.is_success() {
        for at in 0..attribute_count {
            // SAFETY: it was a success, so all three lists have `attribute_count` elements.
            unsafe {
                let (data, room) = (data.add(at).read(), rooms.add(at).read());
                translate(data, room, attributes.add(at).read(), pointer, count);
            }
        }
    }
    Ok(answer)
}
