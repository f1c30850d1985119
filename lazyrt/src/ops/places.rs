//! Functions that name a device by its number: the program's device may lie on a GPU of another number.

use std::ffi::c_void;

use super::pools::Pool;
use super::{device as program, opaque};
use crate::bind::{self, Asked};
use crate::code::{Answer, Code, Own};
use crate::handles::on;
use crate::native::Stream;
use crate::{state, thread};

/// `cudaMemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Location {
    kind: i32,
    id: i32,
}

/// `cudaMemLocationTypeDevice`.
const DEVICE: i32 = 1;

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

/// The real number of the program's device: binds its lazy task, and ties the device to that GPU.
fn real(device: i32) -> Result<i32, Own> {
    let device = program::check(device)?;
    let (key, gpu) = {
        let mut state = state::lock();
        (state.lazy_task_of(device), state.bound_gpu(device))
    };
    let asked = Asked {
        gpu,
        ..Asked::default()
    };
    let (gpu, ordinal) = bind::prepare(key, asked)?.place();
    opaque::tie(device, gpu);
    Ok(ordinal)
}

impl Location {
    /// With the real number. A wrong one is left to the runtime to report.
    fn real(self) -> Location {
        match self.kind {
            DEVICE => Location {
                id: real(self.id).unwrap_or(self.id),
                ..self
            },
            _ => self,
        }
    }
}

fn run(call: impl FnOnce() -> Code) -> Answer {
    thread::with(|thread| thread.take_use());
    opaque::run(call)
}

/// `cudaDeviceGetDefaultMemPool`, `cudaDeviceGetMemPool`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn get_pool(
    native: unsafe extern "C" fn(*mut Pool, i32) -> Code,
    out: *mut Pool,
    device: i32,
) -> Answer {
    let ordinal = real(device)?;
    // SAFETY: the caller says so.
    run(|| unsafe { native(out, ordinal) })
}

/// `cudaDeviceSetMemPool`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn set_pool(native: unsafe extern "C" fn(i32, Pool) -> Code, device: i32, pool: Pool) -> Answer {
    let ordinal = real(device)?;
    // SAFETY: the caller says so.
    run(|| unsafe { native(ordinal, pool) })
}

/// `cudaMemPoolCreate`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn create_pool(
    native: unsafe extern "C" fn(*mut Pool, *const Properties) -> Code,
    out: *mut Pool,
    properties: *const Properties,
) -> Answer {
    // SAFETY: null, or whole.
    let asked = unsafe { properties.as_ref() }.map(|asked| Properties {
        location: asked.location.real(),
        ..*asked
    });
    let properties = asked.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the caller says so.
    run(|| unsafe { native(out, properties) })
}

/// `cudaMemPoolSetAccess`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn set_access(
    native: unsafe extern "C" fn(Pool, *const Access, usize) -> Code,
    pool: Pool,
    list: *const Access,
    count: usize,
) -> Answer {
    if list.is_null() {
        // SAFETY: the caller says so.
        return run(|| unsafe { native(pool, list, count) });
    }
    // SAFETY: as many as the caller says.
    let asked = unsafe { std::slice::from_raw_parts(list, count) };
    let real: Vec<Access> = asked
        .iter()
        .map(|access| Access {
            location: access.location.real(),
            ..*access
        })
        .collect();
    // SAFETY: the caller says so.
    run(|| unsafe { native(pool, real.as_ptr(), count) })
}

/// `cudaMemPoolGetAccess`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn get_access(
    native: unsafe extern "C" fn(*mut i32, Pool, *mut Location) -> Code,
    flags: *mut i32,
    pool: Pool,
    location: *mut Location,
) -> Answer {
    // SAFETY: null, or whole.
    let mut asked = unsafe { location.as_ref() }.map(|location| location.real());
    let location = asked.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the caller says so.
    run(|| unsafe { native(flags, pool, location) })
}

type Prefetch = unsafe extern "C" fn(*const c_void, usize, Location, u32, Stream) -> Code;

/// `cudaMemPrefetchAsync`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn prefetch(
    native: Prefetch,
    pointer: *const c_void,
    bytes: usize,
    location: Location,
    flags: u32,
    stream: Stream,
) -> Answer {
    let location = location.real();
    run(|| {
        // SAFETY: the caller says so.
        on(stream, |stream| unsafe {
            native(pointer, bytes, location, flags, stream)
        })
    })
}

/// `cudaMemAdvise`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn advise(
    native: unsafe extern "C" fn(*const c_void, usize, i32, Location) -> Code,
    pointer: *const c_void,
    bytes: usize,
    advice: i32,
    location: Location,
) -> Answer {
    let location = location.real();
    // SAFETY: the caller says so.
    run(|| unsafe { native(pointer, bytes, advice, location) })
}
