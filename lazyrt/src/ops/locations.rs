//! Functions that name a device by its number: the program's device may lie on a GPU of another number. Where
//! the number is an argument of its own, trampolines translate it; here are those that have it in a
//! structure.

use std::ffi::c_void;

use mgb_abi::location::{LOCATION_DEVICE, MemLocation};
use mgb_abi::pool::{MemAccessDesc, MemPoolProps};

use super::ordinals::{program_device, real};
use super::passthrough;

use crate::code::{Answer, Code, Own};
use crate::handles::on;
use crate::native::{Pool, Stream};
use crate::thread;

/// A structure that names a device.
pub trait NamesDevice: Sized {
    /// With the real number.
    fn real(self) -> Result<Self, Own>;
    /// With the program's number.
    fn of_program(self) -> Self;
}

impl NamesDevice for MemLocation {
    fn real(self) -> Result<MemLocation, Own> {
        Ok(match self.kind {
            LOCATION_DEVICE => MemLocation::device(real(self.id)?),
            _ => self,
        })
    }

    fn of_program(self) -> MemLocation {
        match self.kind {
            LOCATION_DEVICE => MemLocation::device(program_device(self.id)),
            _ => self,
        }
    }
}

impl NamesDevice for MemPoolProps {
    fn real(self) -> Result<MemPoolProps, Own> {
        let location = self.location.real()?;
        Ok(MemPoolProps { location, ..self })
    }

    fn of_program(self) -> MemPoolProps {
        let location = self.location.of_program();
        MemPoolProps { location, ..self }
    }
}

/// A list with the real numbers.
///
/// # Safety
/// `list` is null or has `count` elements.
pub unsafe fn all_real(list: *const MemAccessDesc, count: usize) -> Result<Vec<MemAccessDesc>, Own> {
    if list.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: `list` is not null and has `count` elements: contract of this function.
    let asked = unsafe { std::slice::from_raw_parts(list, count) };
    let real = |access: &MemAccessDesc| {
        let location = access.location.real()?;
        Ok(MemAccessDesc { location, ..*access })
    };
    asked.iter().map(real).collect()
}

fn run(call: impl FnOnce() -> Code) -> Answer {
    thread::with(|thread| thread.take_hint());
    passthrough::run(call)
}

type GetPool = unsafe extern "C" fn(*mut Pool, *mut MemLocation, i32) -> Code;

/// `cudaMemGetDefaultMemPool`, `cudaMemGetMemPool`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemGetDefaultMemPool`.
pub unsafe fn get_pool(native: GetPool, out: *mut Pool, location: *mut MemLocation, kind: i32) -> Answer {
    // SAFETY: `location` is null or valid for reads, `out` null or writable: contract of `cudaMemGetMemPool`.
    unsafe { located(location, |location| native(out, location, kind)) }
}

type SetPool = unsafe extern "C" fn(*mut MemLocation, i32, Pool) -> Code;

/// `cudaMemSetMemPool`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemSetMemPool`.
pub unsafe fn set_pool(native: SetPool, location: *mut MemLocation, kind: i32, pool: Pool) -> Answer {
    // SAFETY: `location` is null or valid for reads: contract of `cudaMemSetMemPool`.
    unsafe { located(location, |location| native(location, kind, pool)) }
}

/// Runs a call with the real location.
///
/// # Safety
/// `location` is null or valid for reads.
unsafe fn located(location: *const MemLocation, call: impl FnOnce(*mut MemLocation) -> Code) -> Answer {
    // SAFETY: `location` is null or valid for reads: contract of this function.
    let mut real = unsafe { location.as_ref() }
        .map(|location| location.real())
        .transpose()?;
    run(|| call(real.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut)))
}

/// `cudaMemPoolCreate`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemPoolCreate`.
pub unsafe fn create_pool(
    native: unsafe extern "C" fn(*mut Pool, *const MemPoolProps) -> Code,
    out: *mut Pool,
    properties: *const MemPoolProps,
) -> Answer {
    // SAFETY: null or valid: contract of this function.
    let asked = unsafe { properties.as_ref() }
        .map(|asked| asked.real())
        .transpose()?;
    let properties = asked.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `out` is null or writable: contract of `cudaMemPoolCreate`; `properties` is null or points to
    // `asked`.
    run(|| unsafe { native(out, properties) })
}

/// `cudaMemPoolSetAccess`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemPoolSetAccess`.
pub unsafe fn set_access(
    native: unsafe extern "C" fn(Pool, *const MemAccessDesc, usize) -> Code,
    pool: Pool,
    list: *const MemAccessDesc,
    count: usize,
) -> Answer {
    // SAFETY: `list` is null or has `count` elements: contract of `cudaMemPoolSetAccess`.
    let real = unsafe { all_real(list, count)? };
    let list = if list.is_null() { list } else { real.as_ptr() };
    // SAFETY: `list` is null or `real`, of as many elements: contract of `cudaMemPoolSetAccess`.
    run(|| unsafe { native(pool, list, count) })
}

/// `cudaMemPoolGetAccess`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemPoolGetAccess`.
pub unsafe fn get_access(
    native: unsafe extern "C" fn(*mut i32, Pool, *mut MemLocation) -> Code,
    flags: *mut i32,
    pool: Pool,
    location: *mut MemLocation,
) -> Answer {
    // SAFETY: `location` is null or valid for reads, `flags` null or writable: contract of
    // `cudaMemPoolGetAccess`.
    unsafe { located(location, |location| native(flags, pool, location)) }
}

type Prefetch = unsafe extern "C" fn(*const c_void, usize, MemLocation, u32, Stream) -> Code;

/// `cudaMemPrefetchAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemPrefetchAsync`.
pub unsafe fn prefetch(
    native: Prefetch,
    pointer: *const c_void,
    bytes: usize,
    location: MemLocation,
    flags: u32,
    stream: Stream,
) -> Answer {
    let location = location.real()?;
    run(|| {
        // SAFETY: the program's arguments, and the runtime's stream for the program's: contract of
        // `cudaMemPrefetchAsync`.
        on(stream, |stream| unsafe {
            native(pointer, bytes, location, flags, stream)
        })
    })
}

/// `cudaMemAdvise`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemAdvise`.
pub unsafe fn advise(
    native: unsafe extern "C" fn(*const c_void, usize, i32, MemLocation) -> Code,
    pointer: *const c_void,
    bytes: usize,
    advice: i32,
    location: MemLocation,
) -> Answer {
    let location = location.real()?;
    // SAFETY: the program's range, and a location with a real ordinal: contract of `cudaMemAdvise`.
    run(|| unsafe { native(pointer, bytes, advice, location) })
}
