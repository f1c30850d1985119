//! Advice and prefetching: checked as CUDA does, and kept. Managed memory is accessible to the
//! host and to all devices at any time.

use std::ffi::{c_int, c_uint, c_void};

use mgb_abi::location::{
    CPU_DEVICE_ID, INVALID_DEVICE_ID, LOCATION_DEVICE, LOCATION_HOST, LOCATION_HOST_NUMA,
    LOCATION_HOST_NUMA_CURRENT, LOCATION_INVALID, MemLocation,
};
use mgb_abi::managed::*;

use super::arguments::{exists, own_stream};
use super::runtime;
use crate::address::{AddressKind, locate};
use crate::device::{node, resolve};
use crate::error::{Error, Result};
use crate::graph::capture;
use crate::memory::advice::{self, Advice, HOST_USER};

/// The range must be managed memory.
pub(super) fn check(pointer: *const c_void, count: usize) -> Result<usize> {
    let address = pointer as usize;
    match locate(address) {
        AddressKind::Managed { base, size, .. } if count > 0 && count <= base + size - address => Ok(address),
        _ => Err(Error::INVALID_VALUE),
    }
}

fn check_place(place: MemLocation) -> Result {
    match place.kind {
        LOCATION_DEVICE => node()?.gpu(place.id).map(drop),
        LOCATION_HOST | LOCATION_HOST_NUMA_CURRENT => Ok(()),
        LOCATION_HOST_NUMA if place.id >= 0 => Ok(()),
        _ => Err(Error::INVALID_VALUE),
    }
}

fn user(place: MemLocation) -> u64 {
    1 << if place.kind == LOCATION_DEVICE {
        place.id as u32
    } else {
        HOST_USER
    }
}

/// Notes where managed memory is to be.
pub(super) fn prefetch(pointer: *const c_void, count: usize, place: MemLocation, stream: usize) -> Result {
    let (_, stream) = resolve::stream(stream)?;
    check_place(place)?;
    let address = check(pointer, count)?;
    capture::refuse(&stream)?;
    advice::change(address, count, |advice| advice.prefetched = place);
    Ok(())
}

/// A location as the older attributes report it: a device's number, or that of the host.
fn old(place: MemLocation) -> c_int {
    match place.kind {
        LOCATION_DEVICE => place.id,
        LOCATION_INVALID => INVALID_DEVICE_ID,
        _ => CPU_DEVICE_ID,
    }
}

/// What all parts have in common; `none` where they differ.
fn common<T: PartialEq>(parts: &[Advice], of: impl Fn(&Advice) -> T, none: T) -> T {
    let mut all = parts.iter().map(of);
    let first = all.next();
    match first {
        Some(first) if all.all(|other| other == first) => first,
        _ => none,
    }
}

fn ask(to: *mut c_void, room: usize, attribute: u32, pointer: *const c_void, count: usize) -> Result {
    let parts = advice::parts(check(pointer, count)?, count);
    let fits = if attribute == RANGE_ACCESSED_BY {
        room >= 4 && room.is_multiple_of(4)
    } else {
        room == 4
    };
    if to.is_null() || !fits {
        return Err(Error::INVALID_VALUE);
    }
    let preferred = common(&parts, |part| part.preferred, MemLocation::INVALID);
    let prefetched = common(&parts, |part| part.prefetched, MemLocation::INVALID);
    let value = match attribute {
        RANGE_READ_MOSTLY => c_int::from(parts.iter().all(|part| part.read_mostly)),
        RANGE_PREFERRED_LOCATION => old(preferred),
        RANGE_ACCESSED_BY => {
            let users = parts.iter().fold(u64::MAX, |users, part| users & part.users);
            let devices = (0..HOST_USER)
                .filter(|bit| users >> bit & 1 == 1)
                .map(|bit| bit as c_int);
            let host = (users >> HOST_USER == 1).then_some(CPU_DEVICE_ID);
            let list = devices.chain(host).chain(std::iter::repeat(INVALID_DEVICE_ID));
            for (at, user) in list.take(room / 4).enumerate() {
                // SAFETY: `to` has `room` bytes: CUDA's contract of the function.
                unsafe { to.cast::<c_int>().add(at).write(user) };
            }
            return Ok(());
        }
        RANGE_LAST_PREFETCH_LOCATION => old(prefetched),
        RANGE_PREFERRED_LOCATION_TYPE => preferred.kind,
        RANGE_PREFERRED_LOCATION_ID => preferred.id,
        RANGE_LAST_PREFETCH_LOCATION_TYPE => prefetched.kind,
        RANGE_LAST_PREFETCH_LOCATION_ID => prefetched.id,
        _ => return Err(Error::INVALID_VALUE),
    };
    // SAFETY: `to` is not null and has `room` bytes, which are four: CUDA's contract of the function.
    unsafe { to.cast::<c_int>().write(value) };
    Ok(())
}

runtime! {
    fn cudaMemPrefetchAsync(
        pointer: *const c_void, count: usize, place: MemLocation, flags: c_uint, stream: usize,
    ) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        prefetch(pointer, count, place, stream)
    }

    fn cudaMemPrefetchBatchAsync(
        pointers: *mut *mut c_void, sizes: *mut usize, count: usize, places: *mut MemLocation,
        starts: *mut usize, place_count: usize, flags: u64, stream: usize,
    ) {
        let any_null = pointers.is_null() || sizes.is_null() || places.is_null() || starts.is_null();
        if any_null || count == 0 || place_count == 0 || place_count > count || flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the arrays have `count` and `place_count` elements: CUDA's contract of the function.
        let (pointers, sizes, places, starts) = unsafe {
            (
                std::slice::from_raw_parts(pointers, count),
                std::slice::from_raw_parts(sizes, count),
                std::slice::from_raw_parts(places, place_count),
                std::slice::from_raw_parts(starts, place_count),
            )
        };
        if starts[0] != 0 || !starts.is_sorted() || starts[place_count - 1] >= count {
            return Err(Error::INVALID_VALUE);
        }
        own_stream(stream)?;
        for (at, (&pointer, &size)) in pointers.iter().zip(sizes).enumerate() {
            let place = places[starts.partition_point(|&start| start <= at) - 1];
            exists(place)?;
            prefetch(pointer, size, place, stream)?;
        }
        Ok(())
    }

    fn cudaMemAdvise(pointer: *const c_void, count: usize, advised: u32, place: MemLocation) {
        node()?;
        let names_location = matches!(
            advised,
            ADVISE_SET_PREFERRED_LOCATION | ADVISE_SET_ACCESSED_BY | ADVISE_UNSET_ACCESSED_BY
        );
        if names_location {
            check_place(place).or(Err(Error::INVALID_VALUE))?;
        }
        let address = check(pointer, count)?;
        let change: &dyn Fn(&mut Advice) = match advised {
            ADVISE_SET_READ_MOSTLY => &|advice| advice.read_mostly = true,
            ADVISE_UNSET_READ_MOSTLY => &|advice| advice.read_mostly = false,
            ADVISE_SET_PREFERRED_LOCATION => &|advice| advice.preferred = place,
            ADVISE_UNSET_PREFERRED_LOCATION => &|advice| advice.preferred = MemLocation::INVALID,
            ADVISE_SET_ACCESSED_BY => &|advice| advice.users |= user(place),
            ADVISE_UNSET_ACCESSED_BY => &|advice| advice.users &= !user(place),
            _ => return Err(Error::INVALID_VALUE),
        };
        advice::change(address, count, change);
        Ok(())
    }

    fn cudaMemRangeGetAttribute(
        to: *mut c_void, room: usize, attribute: u32, pointer: *const c_void, count: usize,
    ) {
        ask(to, room, attribute, pointer, count)
    }

    fn cudaMemRangeGetAttributes(
        to: *mut *mut c_void, rooms: *mut usize, attributes: *mut u32, number: usize, pointer: *const c_void,
        count: usize,
    ) {
        if to.is_null() || rooms.is_null() || attributes.is_null() || number == 0 {
            return Err(Error::INVALID_VALUE);
        }
        for at in 0..number {
            // SAFETY: the arrays have `number` elements: CUDA's contract of the function.
            let (to, room, attribute) = unsafe { (*to.add(at), *rooms.add(at), *attributes.add(at)) };
            ask(to, room, attribute, pointer, count)?;
        }
        Ok(())
    }

    fn cudaStreamAttachMemAsync(stream: usize, pointer: *mut c_void, length: usize, flags: c_uint) {
        resolve::stream(stream)?;
        match locate(pointer as usize) {
            AddressKind::Managed { base, size, .. }
                if base == pointer as usize && (length == 0 || length == size) => {}
            _ => return Err(Error::INVALID_VALUE),
        }
        // Global, host, single.
        if matches!(flags, 1 | 2 | 4) { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }
}
