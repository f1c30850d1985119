//! Sets: recorded while the task has no GPU, whatever their size, for they carry no host bytes.

use std::ffi::c_void;

use mgb_core::pace;

use super::copy::{claim, is_recorded, task_of};
use super::span::Span;
use super::{pacing, run};
use crate::code::{Answer, Code, Own, fail};
use crate::deferred_ops::Record;
use crate::handles::on;
use crate::native::Stream;
use crate::task_binding::Asked;
use crate::{contexts, in_flight, state, thread};

type Set = unsafe extern "C" fn(*mut c_void, i32, usize) -> Code;
type SetAsync = unsafe extern "C" fn(*mut c_void, i32, usize, Stream) -> Code;
type Set2D = unsafe extern "C" fn(*mut c_void, usize, i32, usize, usize) -> Code;
type Set2DAsync = unsafe extern "C" fn(*mut c_void, usize, i32, usize, usize, Stream) -> Code;

/// `cudaMemset`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemset`.
pub unsafe fn memset(native: Set, dst: *mut c_void, value: i32, count: usize) -> Answer {
    let span = Span {
        address: dst as u64,
        bytes: count as u64,
    };
    // SAFETY: the arguments are those that the program passed: contract of `cudaMemset`.
    set(span, Some(value), None, || unsafe { native(dst, value, count) })
}

/// `cudaMemsetAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemsetAsync`.
pub unsafe fn memset_async(
    native: SetAsync,
    dst: *mut c_void,
    value: i32,
    count: usize,
    stream: Stream,
) -> Answer {
    in_flight::settle_before(stream);
    let span = Span {
        address: dst as u64,
        bytes: count as u64,
    };
    set(span, Some(value), Some(stream), || {
        // SAFETY: the program's arguments, and the runtime's stream for the program's: contract of
        // `cudaMemsetAsync`.
        on(stream, |stream| unsafe { native(dst, value, count, stream) })
    })
}

/// `cudaMemset2D`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemset2D`.
pub unsafe fn memset_2d(
    native: Set2D,
    dst: *mut c_void,
    pitch: usize,
    value: i32,
    width: usize,
    height: usize,
) -> Answer {
    // SAFETY: the arguments are those that the program passed: contract of `cudaMemset2D`.
    set(plane(dst, pitch, width, height)?, None, None, || unsafe {
        native(dst, pitch, value, width, height)
    })
}

/// `cudaMemset2DAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemset2DAsync`.
pub unsafe fn memset_2d_async(
    native: Set2DAsync,
    dst: *mut c_void,
    pitch: usize,
    value: i32,
    width: usize,
    height: usize,
    stream: Stream,
) -> Answer {
    in_flight::settle_before(stream);
    set(plane(dst, pitch, width, height)?, None, Some(stream), || {
        // SAFETY: the program's arguments, and the runtime's stream for the program's: contract of
        // `cudaMemset2DAsync`.
        on(stream, |stream| unsafe {
            native(dst, pitch, value, width, height, stream)
        })
    })
}

/// What a set of rows touches. One row may be wider than the pitch.
fn plane(dst: *mut c_void, pitch: usize, width: usize, height: usize) -> Result<Span, Own> {
    if pitch < width && height > 1 {
        thread::with(|thread| thread.take_hint());
        return fail(Code::INVALID_VALUE);
    }
    Ok(Span::of_rows(dst as u64, pitch, width, height))
}

/// Sets a span. `value`: of a set that may be recorded.
pub fn set(span: Span, value: Option<i32>, stream: Option<Stream>, call: impl FnOnce() -> Code) -> Answer {
    let hint = thread::with(|thread| thread.take_hint());
    if span.bytes == 0 && !contexts::any() {
        return Ok(Code::SUCCESS);
    }
    pace::before_copy(span.bytes, pacing::current_gpu);
    let mut state = state::lock();
    let owner = if span.bytes == 0 {
        None
    } else {
        task_of(&state, span)?
    };
    let key = match owner {
        Some(owner) => claim(&mut state, hint, owner),
        None => state.task_of_hint(hint),
    };
    if let (Some(value), Some(_)) = (value, owner)
        && is_recorded(&state, key, 0)
    {
        if let Some(task) = state.task(key) {
            task.records.push(Record::Set {
                to: span.address,
                value: value as u8,
                bytes: span.bytes,
            });
            task.publish();
        }
        return Ok(Code::SUCCESS);
    }
    drop(state);
    match owner {
        Some(_) => run::on_objects(key, stream, call),
        None => run::on_task(key, Asked::default(), call),
    }
}
