//! Allocation: an address of the arena. No GPU is asked, except in an open process.

use std::ffi::c_void;

use mgb_core::arena::{Arena, SMALL};
use mgb_core::memory;
use mgb_core::notice;
use mgb_probe::byte_size::Bytes;
use mgb_probe::failures::FailureCause;
use mgb_probe::log_markers::LARGEST_GPU;
use parking_lot::Mutex;

use super::never_fits::{have_refused, never_fits};
use crate::code::{Answer, Code, Own, fail};
use crate::non_arena_memory::NonArenaKind;
use crate::state;
use crate::task_binding::{self, Asked};
use crate::{address_hold, driver_start, fault, foreign_cuda, session, thread};

/// Where the arena is asked for, and how large: below where programs and libraries lie; 0: anywhere.
const ADDRESS_RANGES: [(u64, u64); 7] = [
    (1 << 44, 64 << 40),
    (1 << 44, 32 << 40),
    (0, 32 << 40),
    (0, 16 << 40),
    (0, 8 << 40),
    (0, 4 << 40),
    (0, 1 << 40),
];
/// Rows of pitched allocations start at multiples of this.
const PITCH: usize = 512;

fn arena(base: u64, bytes: u64) -> Arena {
    let is_guarded = std::env::var_os("MGB_GUARD").is_some_and(|value| value == "1");
    memory::arena(base, bytes, is_guarded)
}

fn reserve() -> Result<Arena, Own> {
    session::note_use();
    if let Some((base, bytes)) = address_hold::hold(&ADDRESS_RANGES) {
        return Ok(arena(base, bytes));
    }
    let driver = driver_start::required()?;
    let mut last = None;
    for (hint, bytes) in ADDRESS_RANGES {
        match driver.reserve(bytes, hint) {
            Ok(base) => return Ok(arena(base, bytes)),
            Err(failure) => last = Some(failure),
        }
    }
    if let Some(failure) = last {
        notice::once(
            "arena",
            format_args!("failed to reserve addresses for device memory: {failure}; is `ulimit -v` set?"),
        );
    }
    fail(Code::MEMORY_ALLOCATION)
}

/// Reserves the arena, once. That may start the driver, which takes long: not under the state's lock.
fn have_arena() -> Result<(), Own> {
    static MAKING: Mutex<()> = Mutex::new(());
    if state::lock().arena.is_some() {
        return Ok(());
    }
    let _making = MAKING.lock();
    if state::lock().arena.is_none() {
        let arena = reserve()?;
        state::lock().arena = Some(arena);
    }
    Ok(())
}

fn allocate(bytes: usize) -> Result<u64, Own> {
    let hint = thread::with(|thread| thread.take_hint());
    fault::check()?;
    have_arena()?;
    let key = state::lock().task_of_hint(hint);
    let lazy = state::lock().is_lazy(key);
    let mut state = state::lock();
    let key = state.resolve(key);
    if let Some(never) = never_fits(&state, key, bytes as u64) {
        state.drop_if_over(key);
        drop(state);
        notice::failure(
            "never-fits",
            Some(FailureCause::NeverFits),
            format_args!(
                "failed to allocate {}: with it, {} {} or more, {LARGEST_GPU} {}",
                Bytes(bytes as u64),
                never.whose,
                Bytes(never.wanted),
                Bytes(never.largest)
            ),
        );
        have_refused(&never);
        return fail(Code::MEMORY_ALLOCATION);
    }
    let Some(address) = state.allocate(key, bytes as u64) else {
        state.drop_if_over(key);
        return fail(Code::MEMORY_ALLOCATION);
    };
    drop(state);
    if lazy && foreign_cuda::is_open() {
        let gpu = state::lock().bound_gpu(state::current());
        if let Err(error) = task_binding::prepare(
            key,
            Asked {
                gpu,
                ..Asked::default()
            },
        ) {
            let freed = state::lock_still(address).free(address);
            crate::mapping::finish_free(freed.unwrap_or_default());
            return Err(error);
        }
    }
    Ok(address)
}

/// `cudaMalloc`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn malloc(
    native: unsafe extern "C" fn(*mut *mut c_void, usize) -> Code,
    out: *mut *mut c_void,
    bytes: usize,
) -> Answer {
    if out.is_null() {
        thread::with(|thread| thread.take_hint());
        return fail(Code::INVALID_VALUE);
    }
    if bytes != 0 && foreign_cuda::shares_memory() {
        return shared(
            bytes,
            // SAFETY: `out` is not null, so `cudaMalloc` may write it: contract of this function.
            || unsafe { native(out, bytes) },
            // SAFETY: the call has written the address.
            || unsafe { out.read() as u64 },
        );
    }
    // CUDA leaves no address where it fails. The pass relies on that: an allocation overwrites its variable.
    // SAFETY: `out` is not null, so it is writable: contract of this function.
    unsafe { out.write(std::ptr::null_mut()) };
    if bytes == 0 {
        // CUDA succeeds, with no address.
        thread::with(|thread| thread.take_hint());
        return Ok(Code::SUCCESS);
    }
    let address = allocate(bytes)?;
    // SAFETY: as above.
    unsafe { out.write(address as *mut c_void) };
    Ok(Code::SUCCESS)
}

/// Memory that may be handed to other processes: only the runtime's own has handles for that, and it stays
/// where it is.
fn shared(bytes: usize, call: impl FnOnce() -> Code, made: impl FnOnce() -> u64) -> Answer {
    // The runtime lets small allocations share granules.
    let kind = if (bytes as u64) < SMALL {
        NonArenaKind::Array
    } else {
        NonArenaKind::Pool
    };
    super::non_arena::allocate(kind, bytes as u64, call, made)
}

/// `cudaMallocPitch`.
///
/// # Safety
/// `out` and `pitch` are null or writable.
pub unsafe fn malloc_pitch(
    native: unsafe extern "C" fn(*mut *mut c_void, *mut usize, usize, usize) -> Code,
    out: *mut *mut c_void,
    pitch: *mut usize,
    width: usize,
    height: usize,
) -> Answer {
    if out.is_null() || pitch.is_null() {
        thread::with(|thread| thread.take_hint());
        return fail(Code::INVALID_VALUE);
    }
    let bytes = width
        .checked_next_multiple_of(PITCH)
        .unwrap_or(usize::MAX)
        .saturating_mul(height);
    if bytes != 0 && foreign_cuda::shares_memory() {
        return shared(
            bytes,
            // SAFETY: `out` and `pitch` are not null, so `cudaMallocPitch` may write them: contract of this
            // function.
            || unsafe { native(out, pitch, width, height) },
            // SAFETY: the call has written the address.
            || unsafe { out.read() as u64 },
        );
    }
    // SAFETY: `out` is not null, so it is writable: contract of this function. See `malloc`.
    unsafe { out.write(std::ptr::null_mut()) };
    let (address, row) = rows(width, Some(height))?;
    // SAFETY: `out` and `pitch` are not null, so they are writable: contract of this function.
    unsafe {
        out.write(address as *mut c_void);
        pitch.write(row);
    }
    Ok(Code::SUCCESS)
}

/// Allocates rows; address and pitch. `None`: more rows than can be counted.
pub fn rows(width: usize, rows: Option<usize>) -> Result<(u64, usize), Own> {
    let row = width.checked_next_multiple_of(PITCH);
    let Some((row, bytes)) = row.and_then(|row| Some((row, row.checked_mul(rows?)?))) else {
        thread::with(|thread| thread.take_hint());
        return fail(Code::MEMORY_ALLOCATION);
    };
    if bytes == 0 {
        thread::with(|thread| thread.take_hint());
        return Ok((0, row));
    }
    Ok((allocate(bytes)?, row))
}
