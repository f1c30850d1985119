//! Copies to and from device variables. A variable has one value per GPU; a task reads and writes it on
//! its own.

use std::ffi::c_void;

use super::copy::{Span, claim, is_recorded, task_of};
use super::run;
use crate::bind::Asked;
use crate::code::{Answer, Code};
use crate::native::Stream;
use crate::records::Record;
use crate::{device, state, thread};

const HOST_TO_DEVICE: u32 = 1;
const DEFAULT: u32 = 4;

type To = unsafe extern "C" fn(*const c_void, *const c_void, usize, usize, u32) -> Code;
type ToAsync = unsafe extern "C" fn(*const c_void, *const c_void, usize, usize, u32, Stream) -> Code;
type From = unsafe extern "C" fn(*mut c_void, *const c_void, usize, usize, u32) -> Code;
type FromAsync = unsafe extern "C" fn(*mut c_void, *const c_void, usize, usize, u32, Stream) -> Code;

/// `cudaMemcpyToSymbol`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn to_symbol(
    native: To,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: u32,
) -> Answer {
    // SAFETY: the caller says so.
    unsafe {
        to(symbol, src, count, offset, kind, || {
            native(symbol, src, count, offset, kind)
        })
    }
}

/// `cudaMemcpyToSymbolAsync`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn to_symbol_async(
    native: ToAsync,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: u32,
    stream: Stream,
) -> Answer {
    // SAFETY: the caller says so.
    unsafe {
        to(symbol, src, count, offset, kind, || {
            native(symbol, src, count, offset, kind, stream)
        })
    }
}

/// `cudaMemcpyFromSymbol`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn from_symbol(
    native: From,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: u32,
) -> Answer {
    let span = Span {
        address: dst as u64,
        bytes: count as u64,
    };
    // SAFETY: the caller says so.
    touch(span, || unsafe { native(dst, symbol, count, offset, kind) })
}

/// `cudaMemcpyFromSymbolAsync`.
///
/// # Safety
/// As CUDA says.
pub unsafe fn from_symbol_async(
    native: FromAsync,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: u32,
    stream: Stream,
) -> Answer {
    let span = Span {
        address: dst as u64,
        bytes: count as u64,
    };
    // SAFETY: the caller says so.
    touch(span, || unsafe {
        native(dst, symbol, count, offset, kind, stream)
    })
}

/// # Safety
/// Where `kind` reads host memory, `src` has `count` readable bytes.
unsafe fn to(
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: u32,
    call: impl FnOnce() -> Code,
) -> Answer {
    // Before any context there is no device memory but the arena's that CUDA could find by its address.
    let from_host = match kind {
        HOST_TO_DEVICE => true,
        DEFAULT => !device::any_context(),
        _ => false,
    } && !src.is_null()
        && count > 0;
    let mut state = state::lock();
    if from_host && !state.in_arena(src as u64) {
        let told = thread::with(|thread| thread.take_use());
        let key = state.task_of_use(told);
        // With static tasks about, which may run elsewhere, the variable is written at once.
        let alone = state.is_lazy(key) && state.tasks.keys().all(|&key| state.is_lazy(key));
        if alone && is_recorded(&state, key, count) {
            // SAFETY: not in the arena, and nothing is bound yet, so it is host memory that the caller
            // says is readable.
            let host = unsafe { std::slice::from_raw_parts(src.cast::<u8>(), count) };
            if let Some(task) = state.task(key) {
                task.records.push(Record::Symbol {
                    symbol: symbol as usize,
                    offset,
                    bytes: host.into(),
                });
                task.publish();
            }
            return Ok(Code::SUCCESS);
        }
        if let Some(told) = told {
            thread::with(|thread| thread.tell(told));
        }
    }
    drop(state);
    touch(
        Span {
            address: src as u64,
            bytes: count as u64,
        },
        call,
    )
}

/// Runs the copy on the task that the pass told, else the one of the object at the other end, else the
/// lazy one.
fn touch(other: Span, call: impl FnOnce() -> Code) -> Answer {
    let told = thread::with(|thread| thread.take_use());
    let mut state = state::lock();
    let owner = if other.bytes == 0 {
        None
    } else {
        task_of(&state, other)?
    };
    let owner = owner.map(|owner| claim(&mut state, told, owner));
    let key = match owner {
        Some(owner) if told.is_none() => owner,
        _ => state.task_of_use(told),
    };
    let gpu = state.bound_gpu(state::current());
    drop(state);
    match owner {
        Some(owner) if owner != key => {
            let mut apart = false;
            let answer = run::on_two(key, owner, |places| {
                apart = places.first != places.second;
                if apart { Code::NOT_SUPPORTED } else { call() }
            });
            if apart {
                run::refuse_two("a copy of a device variable")
            } else {
                answer
            }
        }
        _ => run::on_task(
            key,
            Asked {
                gpu,
                ..Asked::default()
            },
            call,
        ),
    }
}
