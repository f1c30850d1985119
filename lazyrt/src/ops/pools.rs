//! Allocation in stream order. The memory is the runtime's own pools', which take it from the GPU in large steps and
//! keep it until the program waits; what a pool holds is charged to the lazy task of its device. A call that a pool
//! serves from what it holds asks nobody.
//!
//! What an allocation makes a pool take is known only afterwards: before the call there is room for its size, and
//! after it for what was really taken.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use mgb_probe::need::GRANULE;

use super::opaque;
use super::outside::charge_to;
use crate::code::{Answer, Code, Own, fail};
use crate::handles::on;
use crate::native::{self, Stream};
use crate::outside::Kind;
use crate::state::{self, Key};
use crate::{back, device, mode, thread};

/// `cudaMemPool_t`.
pub type Pool = *mut c_void;

/// `cudaMemPoolAttrReservedMemCurrent` and `cudaMemPoolAttrUsedMemCurrent`.
const RESERVED: u32 = 5;
const USED: u32 = 7;
/// What pools take from the GPU at a time.
const STEP: u64 = 32 << 20;

/// Whether the program has used any pool.
static USED_ANY: AtomicBool = AtomicBool::new(false);

/// Bytes that the pool holds, and those of them that are allocated.
fn levels(pool: usize) -> Option<(u64, u64)> {
    let read = |attribute| {
        let mut value = 0u64;
        // SAFETY: a pool that the runtime knew; writes one word.
        let code =
            unsafe { native::cudaMemPoolGetAttribute(pool as Pool, attribute, (&raw mut value).cast()) };
        code.is_success().then_some(value)
    };
    Some((read(RESERVED)?, read(USED)?))
}

/// The pool that the current device allocates from.
fn current_pool() -> Result<usize, Own> {
    let (_, ordinal) = match state::lazy_shared() {
        Some(shared) => shared.place(),
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

/// Whether the stream captures.
pub fn is_capturing(stream: Stream) -> bool {
    let mut status = 0;
    // SAFETY: writes one int; a bad stream is an error here as in the call to come.
    let code = on(stream, |stream| unsafe {
        native::cudaStreamIsCapturing(stream, &mut status)
    });
    code.is_success() && status != 0
}

type Malloc = unsafe extern "C" fn(*mut *mut c_void, usize, Stream) -> Code;
type MallocFrom = unsafe extern "C" fn(*mut *mut c_void, usize, Pool, Stream) -> Code;

/// `cudaMallocAsync`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn malloc(native: Malloc, out: *mut *mut c_void, bytes: usize, stream: Stream) -> Answer {
    // SAFETY: the caller says so.
    unsafe {
        allocate(None, bytes, out, stream, || {
            on(stream, |stream| native(out, bytes, stream))
        })
    }
}

/// `cudaMallocFromPoolAsync`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn malloc_from(
    native: MallocFrom,
    out: *mut *mut c_void,
    bytes: usize,
    pool: Pool,
    stream: Stream,
) -> Answer {
    // SAFETY: the caller says so.
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
    thread::with(|thread| thread.take_use());
    if out.is_null() || bytes == 0 {
        return opaque::run(call);
    }
    // Ties the device, so that the stream and the pool are on its GPU.
    let mut is_captured = false;
    opaque::run(|| {
        is_captured = is_capturing(stream);
        Code::SUCCESS
    })?;
    if is_captured {
        // A node of a graph: no pool takes anything now.
        return opaque::run(call);
    }
    let pool = match pool {
        Some(pool) => pool,
        None => current_pool()?,
    };
    let Some((held, used)) = levels(pool) else {
        // No pool: the runtime says so.
        return opaque::run(call);
    };
    USED_ANY.store(true, Ordering::Release);
    let key = {
        let mut state = state::lock();
        let owner = state.lazy_task();
        let known = state.pool(pool, owner);
        known.users += 1;
        known.uses += 1;
        state.owner_of_pool(pool).unwrap_or(owner)
    };
    let fits = held - used.min(held) >= bytes as u64;
    let answer = first(key, pool, bytes as u64, held, fits).and_then(|()| {
        let code = opaque::run(&call)?;
        if code != Code::MEMORY_ALLOCATION || !device::any_context() {
            return Ok(code);
        }
        // It takes more than its size, or nothing that the pool holds fits: once more, with room for that.
        // SAFETY: no pointers. The error was this call's, and is being dealt with.
        unsafe { native::cudaGetLastError() };
        let held = levels(pool).map_or(0, |(held, _)| held);
        raise(
            key,
            pool,
            held.saturating_add((bytes as u64).saturating_add(STEP)),
        )?;
        opaque::run(&call)
    });
    let after = match answer {
        Ok(Code::SUCCESS) => raise(key, pool, levels(pool).map_or(0, |(held, _)| held)),
        _ => Ok(()),
    };
    if let Some(known) = state::lock().known_pool(pool) {
        known.users -= 1;
    }
    let failed = after.is_err() || answer != Ok(Code::SUCCESS);
    if failed {
        if after.is_err() {
            // SAFETY: just allocated, given to nobody.
            on(stream, |stream| unsafe {
                native::cudaFreeAsync(out.read(), stream)
            });
        }
        settle(pool);
    } else {
        publish(pool);
    }
    after.and(answer)
}

/// Room for the allocation before the call. Where the pool holds enough that is free, it needs none.
fn first(key: Key, pool: usize, bytes: u64, held: u64, fits: bool) -> Result<(), Own> {
    if fits {
        return raise(key, pool, held);
    }
    let more = bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
    let raised = raise(key, pool, held.saturating_add(more));
    if raised.is_ok() {
        return raised;
    }
    // What the pool keeps and nobody uses may make the place, as it does in the runtime.
    wait_for_all()?;
    // SAFETY: a pool that the runtime knew.
    unsafe { native::cudaMemPoolTrimTo(pool as Pool, 0) };
    settle_used(pool);
    let held = levels(pool).map_or(0, |(held, _)| held);
    raise(key, pool, held.saturating_add(more))
}

fn wait_for_all() -> Result<(), Own> {
    for (gpu, ordinal) in device::with_context() {
        device::settle(gpu, ordinal)?;
    }
    match state::lazy_shared() {
        Some(shared) => device::select(shared.place().0, shared.place().1),
        None => Ok(()),
    }
}

/// Charges the pool so many bytes, if it is charged less.
fn raise(key: Key, pool: usize, bytes: u64) -> Result<(), Own> {
    let lacks = {
        let mut state = state::lock();
        let known = state.pool(pool, key);
        bytes.saturating_sub(known.bytes)
    };
    if lacks == 0 {
        return Ok(());
    }
    charge_to(key, Kind::Pool, lacks)?;
    let mut state = state::lock();
    let known = state.pool(pool, key);
    known.bytes = known.bytes.saturating_add(lacks);
    Ok(())
}

/// Lowers the charge of every pool to what it holds: after the program has waited, or given something back.
pub fn settle_all() {
    if USED_ANY.load(Ordering::Acquire) {
        let pools = state::lock().pools();
        pools.into_iter().for_each(settle);
    }
}

fn settle(pool: usize) {
    lower(pool, 0);
}

/// As [`settle`], by the thread that is about to allocate from the pool itself.
fn settle_used(pool: usize) {
    lower(pool, 1);
}

fn lower(pool: usize, own: u32) {
    let uses = match state::lock().known_pool(pool) {
        Some(known) if known.users <= own => known.uses,
        _ => return,
    };
    // A pool that is no more holds nothing that could be told; what was allocated from it is still charged.
    let Some((held, _)) = levels(pool) else {
        return;
    };
    let returned = {
        let mut state = state::lock();
        match state.known_pool(pool) {
            // Nobody allocated from it in between.
            Some(known) if known.users <= own && known.uses == uses => {}
            _ => return,
        }
        let bytes = held.next_multiple_of(GRANULE);
        let known = state.known_pool(pool).map_or(0, |known| known.bytes);
        if bytes >= known {
            None
        } else {
            state.set_pool(pool, bytes)
        }
    };
    publish_level(pool, held);
    back::give_back(returned.and_then(|(_, returned)| returned));
}

/// Tells mgbd what the pool holds.
fn publish(pool: usize) {
    if let Some((held, _)) = levels(pool) {
        publish_level(pool, held);
    }
}

fn publish_level(pool: usize, held: u64) {
    let mut state = state::lock();
    let gpu = state.owner_of_pool(pool).and_then(|owner| state.task(owner)?.gpu);
    let Some(known) = state.known_pool(pool) else {
        return;
    };
    let before = std::mem::replace(&mut known.held, held);
    if let (Some(client), Some(gpu)) = (mode::client(), gpu) {
        if held >= before {
            client.published().mapped(gpu, held - before);
        } else {
            client.published().unmapping(gpu, before - held);
        }
    }
}

/// `cudaMemPoolTrimTo`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn trim(native: unsafe extern "C" fn(Pool, usize) -> Code, pool: Pool, keep: usize) -> Answer {
    thread::with(|thread| thread.take_use());
    // SAFETY: the caller says so.
    let answer = opaque::run(|| unsafe { native(pool, keep) });
    settle_all();
    answer
}

/// `cudaMemPoolDestroy`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn destroy(native: unsafe extern "C" fn(Pool) -> Code, pool: Pool) -> Answer {
    thread::with(|thread| thread.take_use());
    // What it keeps and nobody uses goes with it; the rest stays charged.
    let held = levels(pool as usize).map_or(0, |(_, used)| used);
    // SAFETY: the caller says so.
    let answer = opaque::run(|| unsafe { native(pool) });
    if answer == Ok(Code::SUCCESS) {
        publish_level(pool as usize, held);
        let mut state = state::lock();
        let returned = state
            .set_pool(pool as usize, held.next_multiple_of(GRANULE))
            .and_then(|(_, returned)| returned);
        if held == 0 {
            state.drop_pool(pool as usize);
        }
        drop(state);
        back::give_back(returned);
    }
    answer
}
