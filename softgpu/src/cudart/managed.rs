//! Advice and prefetching: checked as CUDA does, and kept. Managed memory is the host's and the devices' all the time.

use std::ffi::{c_int, c_uint, c_void};

use super::{batch, runtime};
use crate::device::node;
use crate::driver::vmm::Location;
use crate::error::{Error, Result};
use crate::graph::capture;
use crate::memory::advice::{self, Advice, HOST_USER, NOWHERE};
use crate::memory::{Place, locate};
use crate::stream::handle;

/// `cudaMemLocationType`s.
pub(super) const DEVICE: c_int = 1;
const HOST: c_int = 2;
const HOST_NUMA: c_int = 3;
const HOST_NUMA_CURRENT: c_int = 4;

/// How the old attributes name the host and no place.
const OLD_HOST: c_int = -1;
const OLD_NOWHERE: c_int = -2;

/// The range must be managed memory.
pub(super) fn check(pointer: *const c_void, count: usize) -> Result<usize> {
    let address = pointer as usize;
    match locate(address) {
        Place::Managed { base, size, .. } if count > 0 && count <= base + size - address => Ok(address),
        _ => Err(Error::INVALID_VALUE),
    }
}

fn check_place(place: Location) -> Result {
    match place.kind {
        DEVICE => node()?.gpu(place.id).map(drop),
        HOST | HOST_NUMA_CURRENT => Ok(()),
        HOST_NUMA if place.id >= 0 => Ok(()),
        _ => Err(Error::INVALID_VALUE),
    }
}

fn user(place: Location) -> u64 {
    1 << if place.kind == DEVICE {
        place.id as u32
    } else {
        HOST_USER
    }
}

/// Notes where managed memory is to be.
pub(super) fn prefetch(pointer: *const c_void, count: usize, place: Location, stream: usize) -> Result {
    let (_, stream) = handle::resolve(stream)?;
    check_place(place)?;
    let address = check(pointer, count)?;
    capture::refuse(&stream)?;
    advice::change(address, count, |advice| advice.prefetched = place);
    Ok(())
}

/// As the old attributes tell a place.
fn old(place: Location) -> c_int {
    match place.kind {
        DEVICE => place.id,
        0 => OLD_NOWHERE,
        _ => OLD_HOST,
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

fn ask(to: *mut c_void, room: usize, attribute: c_int, pointer: *const c_void, count: usize) -> Result {
    let parts = advice::parts(check(pointer, count)?, count);
    let fits = if attribute == 3 {
        room >= 4 && room.is_multiple_of(4)
    } else {
        room == 4
    };
    if to.is_null() || !fits {
        return Err(Error::INVALID_VALUE);
    }
    let preferred = common(&parts, |part| part.preferred, NOWHERE);
    let prefetched = common(&parts, |part| part.prefetched, NOWHERE);
    let value = match attribute {
        1 => c_int::from(parts.iter().all(|part| part.read_mostly)),
        2 => old(preferred),
        3 => {
            let users = parts.iter().fold(u64::MAX, |users, part| users & part.users);
            let devices = (0..HOST_USER)
                .filter(|bit| users >> bit & 1 == 1)
                .map(|bit| bit as c_int);
            let host = (users >> HOST_USER == 1).then_some(OLD_HOST);
            let list = devices.chain(host).chain(std::iter::repeat(OLD_NOWHERE));
            for (at, user) in list.take(room / 4).enumerate() {
                // SAFETY: within the caller's room.
                unsafe { to.cast::<c_int>().add(at).write(user) };
            }
            return Ok(());
        }
        4 => old(prefetched),
        5 => preferred.kind,
        6 => preferred.id,
        7 => prefetched.kind,
        8 => prefetched.id,
        _ => return Err(Error::INVALID_VALUE),
    };
    // SAFETY: not null, and room for an int.
    unsafe { to.cast::<c_int>().write(value) };
    Ok(())
}

runtime! {
    fn cudaMemPrefetchAsync(pointer: *const c_void, count: usize, place: Location, flags: c_uint, stream: usize) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        prefetch(pointer, count, place, stream)
    }

    fn cudaMemPrefetchBatchAsync(pointers: *mut *mut c_void, sizes: *mut usize, count: usize, places: *mut Location, starts: *mut usize, place_count: usize, flags: u64, stream: usize) {
        let any_null = pointers.is_null() || sizes.is_null() || places.is_null() || starts.is_null();
        if any_null || count == 0 || place_count == 0 || place_count > count || flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the caller's arrays, of the sizes that it tells.
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
        batch::own_stream(stream)?;
        for (at, (&pointer, &size)) in pointers.iter().zip(sizes).enumerate() {
            let place = places[starts.partition_point(|&start| start <= at) - 1];
            batch::exists(place)?;
            prefetch(pointer, size, place, stream)?;
        }
        Ok(())
    }

    fn cudaMemAdvise(pointer: *const c_void, count: usize, advised: c_int, place: Location) {
        node()?;
        if matches!(advised, 3 | 5 | 6) {
            check_place(place).or(Err(Error::INVALID_VALUE))?;
        }
        let address = check(pointer, count)?;
        let change: &dyn Fn(&mut Advice) = match advised {
            1 => &|advice| advice.read_mostly = true,
            2 => &|advice| advice.read_mostly = false,
            3 => &|advice| advice.preferred = place,
            4 => &|advice| advice.preferred = NOWHERE,
            5 => &|advice| advice.users |= user(place),
            6 => &|advice| advice.users &= !user(place),
            _ => return Err(Error::INVALID_VALUE),
        };
        advice::change(address, count, change);
        Ok(())
    }

    fn cudaMemRangeGetAttribute(to: *mut c_void, room: usize, attribute: c_int, pointer: *const c_void, count: usize) {
        ask(to, room, attribute, pointer, count)
    }

    fn cudaMemRangeGetAttributes(to: *mut *mut c_void, rooms: *mut usize, attributes: *mut c_int, number: usize, pointer: *const c_void, count: usize) {
        if to.is_null() || rooms.is_null() || attributes.is_null() || number == 0 {
            return Err(Error::INVALID_VALUE);
        }
        for at in 0..number {
            // SAFETY: the caller's arrays of this size.
            let (to, room, attribute) = unsafe { (*to.add(at), *rooms.add(at), *attributes.add(at)) };
            ask(to, room, attribute, pointer, count)?;
        }
        Ok(())
    }

    fn cudaStreamAttachMemAsync(stream: usize, pointer: *mut c_void, length: usize, flags: c_uint) {
        handle::resolve(stream)?;
        match locate(pointer as usize) {
            Place::Managed { base, size, .. } if base == pointer as usize && (length == 0 || length == size) => {}
            _ => return Err(Error::INVALID_VALUE),
        }
        // Global, host, single.
        if matches!(flags, 1 | 2 | 4) { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }
}
