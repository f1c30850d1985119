//! Copies. Their addresses say which objects they touch; small ones to a task without a GPU are
//! recorded, with their bytes taken at once.

use std::ffi::c_void;

use mgb_abi::copy::{DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST};
use mgb_core::{captures, pace, urgent, work};
use parking_lot::MutexGuard;

use super::span::Span;
use super::{pacing, run, two};
use crate::code::{Answer, Code, Own, fail};
use crate::deferred_ops::Record;
use crate::handles::{capture, on};
use crate::native::{self, Stream};
use crate::state::{self, Key, ProcessState};
use crate::task_binding::Asked;
use crate::thread::{self, SiteHint};
use crate::{contexts, driver_start, fault, foreign_cuda, in_flight};

/// The task of the object that the span lies in. `Ok(None)`: not in the arena. An error: in the arena, but
/// not inside one object.
pub fn task_of(state: &ProcessState, span: Span) -> Result<Option<Key>, Own> {
    if !state.in_arena(span.address) {
        return Ok(None);
    }
    let Some((start, object)) = state.find(span.address) else {
        return fail(Code::INVALID_VALUE);
    };
    let rest = object.bytes - (span.address - start);
    if span.bytes > rest {
        return fail(Code::INVALID_VALUE);
    }
    Ok(state.owner(start))
}

/// The task of the object that a copy of this kind writes. An empty copy touches nothing, but the runtime
/// still looks at its arguments.
pub fn written_of(state: &ProcessState, to: Span, kind: u32) -> Result<Option<Key>, Own> {
    side_of(state, to, kind, DEVICE_TO_HOST)
}

/// The task of the object that a copy of this kind reads.
pub fn read_of(state: &ProcessState, from: Span, kind: u32) -> Result<Option<Key>, Own> {
    side_of(state, from, kind, HOST_TO_DEVICE)
}

/// `hosts`: the kind of copy whose side this is in host memory.
fn side_of(state: &ProcessState, span: Span, kind: u32, hosts: u32) -> Result<Option<Key>, Own> {
    match span.bytes {
        0 => Ok(None),
        _ if kind == hosts || kind == HOST_TO_HOST => Ok(None),
        _ => task_of(state, span),
    }
}

/// An op with a handle claims what its thread allocated for the site before the task began.
pub fn claim(state: &mut ProcessState, hint: Option<SiteHint>, owner: Key) -> Key {
    let owner = state.resolve(owner);
    let Some(into) = hint
        .filter(|hint| hint.handle != 0)
        .and_then(|hint| state.by_handle(hint.handle))
    else {
        return owner;
    };
    let same_site = |state: &ProcessState| {
        let key = |key| {
            let task = state.task_at(key)?;
            Some((task.site.as_ref()?.key, task.device))
        };
        key(owner).is_some() && key(owner) == key(into)
    };
    let free = state
        .task_at(owner)
        .is_some_and(|task| task.is_unbound() && !task.busy && !task.ended);
    if owner != into && free && same_site(state) {
        state.merge(owner, into);
        return into;
    }
    owner
}

/// Whether an op on the task is recorded instead of done. What a stream captures never is: it belongs into
/// the graph. After a fault the runtime answers.
pub fn is_recorded(state: &ProcessState, key: Key, host_bytes: usize) -> bool {
    state.task_at(key).is_some_and(|task| {
        task.is_unbound()
            && !task.refused
            && !captures::any()
            && fault::sticky().is_none()
            && !(task.lazy && foreign_cuda::is_open())
            && task.records.accepts(host_bytes)
    })
}

/// Whether a source outside the arena is host memory whose bytes may be taken at the call.
///
/// Pinned, mapped and managed memory is read only when the stream gets to the copy, and a copy that waits reads
/// any memory only behind what its stream was given before. So nothing of this process may be under way that
/// could still write the bytes: a kernel, a copy, a host function, or what a stream waits for. Before there is a
/// context nothing is, and no device memory outside the arena exists. Afterwards `kind` must name host memory,
/// and the driver must agree, since the bytes are read here.
pub fn may_take(src: *const c_void, kind: u32) -> bool {
    if !contexts::any() {
        return matches!(kind, HOST_TO_DEVICE | DEFAULT);
    }
    kind == HOST_TO_DEVICE
        && !contexts::gpus().any(work::is_busy)
        && driver_start::get().is_ok_and(|driver| driver.is_host(src as u64))
}

type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize, u32) -> Code;
type CopyAsync = unsafe extern "C" fn(*mut c_void, *const c_void, usize, u32, Stream) -> Code;

/// `cudaMemcpy`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpy`.
pub unsafe fn memcpy(native: Copy, dst: *mut c_void, src: *const c_void, count: usize, kind: u32) -> Answer {
    // SAFETY: the arguments are those that the program passed: contract of `cudaMemcpy`.
    let answer = unsafe { linear(dst, src, count, kind, None, || native(dst, src, count, kind)) };
    if answer == Ok(Code::SUCCESS) {
        urgent::synchronised();
    }
    answer
}

/// `cudaMemcpyAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpyAsync`.
pub unsafe fn memcpy_async(
    native: CopyAsync,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: u32,
    stream: Stream,
) -> Answer {
    in_flight::settle_before(stream);
    // SAFETY: the program's arguments, and the runtime's stream for the program's: contract of
    // `cudaMemcpyAsync`.
    unsafe {
        linear(dst, src, count, kind, Some(stream), || {
            on(stream, |stream| native(dst, src, count, kind, stream))
        })
    }
}

/// # Safety
/// Where `kind` reads host memory, `src` has `count` readable bytes. `stream`: none where the call returns
/// when the copy is done.
unsafe fn linear(
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: u32,
    stream: Option<Stream>,
    call: impl FnOnce() -> Code,
) -> Answer {
    let hint = thread::with(|thread| thread.take_hint());
    if kind > DEFAULT {
        return fail(Code::INVALID_MEMCPY_DIRECTION);
    }
    let bytes = count as u64;
    pace::before_copy(bytes, pacing::current_gpu);
    let mut state = state::lock();
    if count == 0 && !contexts::any() {
        return Ok(Code::SUCCESS);
    }
    let side = |state: &ProcessState, address| match bytes {
        0 => Ok(None),
        _ => task_of(state, Span { address, bytes }),
    };
    let (to, from) = (side(&state, dst as u64)?, side(&state, src as u64)?);
    let to = to.map(|key| claim(&mut state, hint, key));
    let from = from.map(|key| claim(&mut state, hint, key));
    match (to, from) {
        (Some(key), None) if is_recorded(&state, key, count) && may_take(src, kind) => {
            if src.is_null() {
                return fail(Code::INVALID_VALUE);
            }
            // SAFETY: the source is not in the arena, and `may_take` found it to be host memory; so it is
            // readable.
            let host = unsafe { std::slice::from_raw_parts(src.cast::<u8>(), count) };
            if let Some(task) = state.task(key) {
                task.records.push(Record::Copy {
                    to: dst as u64,
                    bytes: host.into(),
                });
                task.publish();
            }
            Ok(Code::SUCCESS)
        }
        (None, None) if !contexts::any() && matches!(kind, HOST_TO_HOST | DEFAULT) => {
            drop(state);
            // SAFETY: no device memory exists in this process, so both are host memory of `count` bytes.
            unsafe { std::ptr::copy(src.cast::<u8>(), dst.cast::<u8>(), count) };
            Ok(Code::SUCCESS)
        }
        (Some(to), Some(from)) if to != from => {
            drop(state);
            two::across(to, from, stream, |ordinals| {
                if ordinals.are_one() {
                    return call();
                }
                // SAFETY: both ranges were checked above.
                unsafe { from_gpu_to_gpu(dst, src, count, &ordinals, stream) }
            })
        }
        (None, Some(key)) if stream.is_none() && kind != DEVICE_TO_DEVICE && !state::may_be_several() => {
            drop(state);
            run::on_task_until_done(key, call)
        }
        (to, from) => on_either(state, hint, (to, from), kind, stream, call),
    }
}

/// Runs a copy of this kind between objects of one task at most and other memory.
pub fn on_either(
    mut state: MutexGuard<'static, ProcessState>,
    hint: Option<SiteHint>,
    sides: (Option<Key>, Option<Key>),
    kind: u32,
    stream: Option<Stream>,
    call: impl FnOnce() -> Code,
) -> Answer {
    let (to, from) = sides;
    match to.or(from) {
        Some(key) => {
            drop(state);
            let both_here = to.is_some() && from.is_some();
            if matches!(kind, DEVICE_TO_DEVICE | DEFAULT) && !both_here {
                run::beside_memory(key, stream, call)
            } else {
                run::on_objects(key, stream, call)
            }
        }
        None => {
            let key = state.task_of_hint(hint);
            drop(state);
            run::on_task(key, Asked::default(), || run::in_order(stream, call))
        }
    }
}

/// The runtime's own copy between two GPUs.
///
/// # Safety
/// Both ranges are device memory, of these GPUs.
pub unsafe fn from_gpu_to_gpu(
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    ordinals: &two::Ordinals,
    stream: Option<Stream>,
) -> Code {
    let (to, from) = (ordinals.first, ordinals.second);
    // SAFETY: both ranges are device memory, of the GPUs with these ordinals: contract of this function.
    unsafe {
        match stream {
            Some(stream) => on(capture::named(stream), |stream| {
                native::cudaMemcpyPeerAsync(dst, to, src, from, count, stream)
            }),
            None => native::cudaMemcpyPeer(dst, to, src, from, count),
        }
    }
}
