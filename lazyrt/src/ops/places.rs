//! Functions that name a device by its number: the program's device may lie on a GPU of another number. Where
//! the number is an argument of its own, trampolines translate it; here are those that have it in a
//! structure.

use std::ffi::c_void;

use super::opaque;
use super::ordinals::{program_device, real};
use super::pools::Pool;

use crate::code::{Answer, Code, Own};
use crate::handles::on;
use crate::native::Stream;
use crate::thread;

/// `cudaMemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Location {
    /// `cudaMemLocationType`.
    pub kind: i32,
    id: i32,
}

/// `cudaMemLocationTypeDevice`.
pub const DEVICE: i32 = 1;

/// `cudaMemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    kinds: [i32; 2],
    location: Location,
    rest: [u64; 9],
}

/// `cudaMemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Access {
    location: Location,
    flags: i32,
}

const _: () = assert!(size_of::<Properties>() == 88 && size_of::<Access>() == 12);

impl Location {
    /// With the real number.
    pub fn real(self) -> Result<Location, Own> {
        Ok(match self.kind {
            DEVICE => Location {
                id: real(self.id)?,
                ..self
            },
            _ => self,
        })
    }

    /// With the program's number.
    pub fn of_program(self) -> Location {
        match self.kind {
            DEVICE => Location {
                id: program_device(self.id),
                ..self
            },
            _ => self,
        }
    }
}

impl Properties {
    /// With the real number.
    pub fn real(self) -> Result<Properties, Own> {
        let location = self.location.real()?;
        Ok(Properties { location, ..self })
    }

    /// The number of the device.
    pub fn device(&self) -> i32 {
        self.location.id
    }

    /// With the program's number.
    pub fn of_program(self) -> Properties {
        let location = self.location.of_program();
        Properties { location, ..self }
    }
}

impl Access {
    /// A list with the real numbers.
    ///
    /// # Safety
    /// `list` is null or has `count` elements.
    pub unsafe fn all_real(list: *const Access, count: usize) -> Result<Vec<Access>, Own> {
        if list.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: `list` is not null and has `count` elements: contract of this function.
        let asked = unsafe { std::slice::from_raw_parts(list, count) };
        let real = |access: &Access| {
            let location = access.location.real()?;
            Ok(Access { location, ..*access })
        };
        asked.iter().map(real).collect()
    }
}

fn run(call: impl FnOnce() -> Code) -> Answer {
    thread::with(|thread| thread.take_use());
    opaque::run(call)
}

type GetPool = unsafe extern "C" fn(*mut Pool, *mut Location, i32) -> Code;

/// `cudaMemGetDefaultMemPool`, `cudaMemGetMemPool`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemGetDefaultMemPool`.
pub unsafe fn get_pool(native: GetPool, out: *mut Pool, location: *mut Location, kind: i32) -> Answer {
    // SAFETY: `location` is null or valid for reads, `out` null or writable: contract of `cudaMemGetMemPool`.
    unsafe { located(location, |location| native(out, location, kind)) }
}

type SetPool = unsafe extern "C" fn(*mut Location, i32, Pool) -> Code;

/// `cudaMemSetMemPool`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemSetMemPool`.
pub unsafe fn set_pool(native: SetPool, location: *mut Location, kind: i32, pool: Pool) -> Answer {
    // SAFETY: `location` is null or valid for reads: contract of `cudaMemSetMemPool`.
    unsafe { located(location, |location| native(location, kind, pool)) }
}

/// Runs a call with the real place.
///
/// # Safety
/// `location` is null or valid for reads.
unsafe fn located(location: *const Location, call: impl FnOnce(*mut Location) -> Code) -> Answer {
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
    native: unsafe extern "C" fn(*mut Pool, *const Properties) -> Code,
    out: *mut Pool,
    properties: *const Properties,
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
    native: unsafe extern "C" fn(Pool, *const Access, usize) -> Code,
    pool: Pool,
    list: *const Access,
    count: usize,
) -> Answer {
    // SAFETY: `list` is null or has `count` elements: contract of `cudaMemPoolSetAccess`.
    let real = unsafe { Access::all_real(list, count)? };
    let list = if list.is_null() { list } else { real.as_ptr() };
    // SAFETY: `list` is null or `real`, of as many elements: contract of `cudaMemPoolSetAccess`.
    run(|| unsafe { native(pool, list, count) })
}

/// `cudaMemPoolGetAccess`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemPoolGetAccess`.
pub unsafe fn get_access(
    native: unsafe extern "C" fn(*mut i32, Pool, *mut Location) -> Code,
    flags: *mut i32,
    pool: Pool,
    location: *mut Location,
) -> Answer {
    // SAFETY: `location` is null or valid for reads, `flags` null or writable: contract of
    // `cudaMemPoolGetAccess`.
    unsafe { located(location, |location| native(flags, pool, location)) }
}

type Prefetch = unsafe extern "C" fn(*const c_void, usize, Location, u32, Stream) -> Code;

/// `cudaMemPrefetchAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemPrefetchAsync`.
pub unsafe fn prefetch(
    native: Prefetch,
    pointer: *const c_void,
    bytes: usize,
    location: Location,
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
    native: unsafe extern "C" fn(*const c_void, usize, i32, Location) -> Code,
    pointer: *const c_void,
    bytes: usize,
    advice: i32,
    location: Location,
) -> Answer {
    let location = location.real()?;
    // SAFETY: the program's range, and a location with a real ordinal: contract of `cudaMemAdvise`.
    run(|| unsafe { native(pointer, bytes, advice, location) })
}
