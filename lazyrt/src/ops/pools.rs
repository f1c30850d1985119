//! Allocation in stream order, from the runtime's own pools (`sources`).

use std::ffi::c_void;

use mgb_probe::need::GRANULE;

use super::passthrough;
use super::sources::{charged, publish_level, settle_all};
use crate::code::{Answer, Code, Own, fail};
use crate::handles::{capture, on};
use crate::native::{self, Pool, Stream};
use crate::non_arena_memory::Source;
use crate::state;
use crate::{mapping, thread};

/// The pool that the current device allocates from.
fn current_pool() -> Result<usize, Own> {
    let (_, ordinal) = match state::lazy_shared() {
        Some(shared) => shared.placement(),
        None => return fail(Code::UNKNOWN),
    };
    let mut pool = std::ptr::null_mut();
    // SAFETY: writes one handle.
    let code = unsafe { native::cudaDeviceGetMemPool(&mut pool, ordinal) };
    if code.is_success() {
        Ok(pool as usize)
    } else {
        fail(code)
    }
}

type Malloc = unsafe extern "C" fn(*mut *mut c_void, usize, Stream) -> Code;
type MallocFrom = unsafe extern "C" fn(*mut *mut c_void, usize, Pool, Stream) -> Code;

/// `cudaMallocAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMallocAsync`.
pub unsafe fn malloc(native: Malloc, out: *mut *mut c_void, bytes: usize, stream: Stream) -> Answer {
    // SAFETY: a success of the call writes `out`: contract of `cudaMallocAsync`.
    unsafe {
        allocate(None, bytes, out, stream, || {
            on(stream, |stream| native(out, bytes, stream))
        })
    }
}

/// `cudaMallocFromPoolAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMallocFromPoolAsync`.
pub unsafe fn malloc_from(
    native: MallocFrom,
    out: *mut *mut c_void,
    bytes: usize,
    pool: Pool,
    stream: Stream,
) -> Answer {
    // SAFETY: a success of the call writes `out`: contract of `cudaMallocFromPoolAsync`.
    unsafe {
        allocate(Some(pool as usize), bytes, out, stream, || {
            on(stream, |stream| native(out, bytes, pool, stream))
        })
    }
}

/// # Safety
/// A success of the call writes `out`.
unsafe fn allocate(
    pool: Option<usize>,
    bytes: usize,
    out: *mut *mut c_void,
    stream: Stream,
    call: impl Fn() -> Code,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    if out.is_null() || bytes == 0 {
        return passthrough::run(call);
    }
    // Ties the device, so that the stream and the pool are on its GPU.
    let mut is_captured = false;
    passthrough::run(|| {
        is_captured = capture::is_capturing(stream);
        Code::SUCCESS
    })?;
    if is_captured {
        // A node of a graph: memory is taken when that is launched.
        return passthrough::run(call);
    }
    let pool = match pool {
        Some(pool) => pool,
        None => current_pool()?,
    };
    charged(Source::Pool(pool), bytes as u64, call, || {
        // SAFETY: just allocated; the program does not have the address.
        on(stream, |stream| unsafe {
            native::cudaFreeAsync(out.read(), stream)
        });
        true
    })
}

/// `cudaMemPoolTrimTo`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemPoolTrimTo`.
pub unsafe fn trim(native: unsafe extern "C" fn(Pool, usize) -> Code, pool: Pool, keep: usize) -> Answer {
    thread::with(|thread| thread.take_hint());
    // SAFETY: the arguments are those that the program passed: contract of `cudaMemPoolTrimTo`.
    let answer = passthrough::run(|| unsafe { native(pool, keep) });
    settle_all();
    answer
}

/// `cudaMemPoolDestroy`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemPoolDestroy`.
pub unsafe fn destroy(native: unsafe extern "C" fn(Pool) -> Code, pool: Pool) -> Answer {
    thread::with(|thread| thread.take_hint());
    // What the pool keeps unused is freed with it; the rest stays charged.
    let source = Source::Pool(pool as usize);
    let held = source.levels().map_or(0, |(_, used)| used);
    // SAFETY: the arguments are those that the program passed: contract of `cudaMemPoolDestroy`.
    let answer = passthrough::run(|| unsafe { native(pool) });
    if answer == Ok(Code::SUCCESS) {
        publish_level(source, held);
        let mut state = state::lock();
        let returned = state
            .set_source(source, held.next_multiple_of(GRANULE))
            .and_then(|(_, returned)| returned);
        if held == 0 {
            state.drop_source(source);
        }
        drop(state);
        mapping::give_back(returned);
    }
    answer
}
