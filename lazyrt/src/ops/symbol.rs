//! Copies to and from device variables. A variable has one value per GPU; a task reads and writes it on
//! its own.

use std::ffi::c_void;

use super::copy::{claim, from_gpu_to_gpu, is_recorded, may_take, task_of};
use super::driver_memory;
use super::run;
use super::span::Span;
use super::two::{self, Ordinals};
use crate::code::{Answer, Code};
use crate::deferred_ops::Record;
use crate::handles::on;
use crate::native::{self, Stream};
use crate::state;
use crate::task_binding::Asked;
use crate::thread::{self, SiteHint};

type To = unsafe extern "C" fn(*const c_void, *const c_void, usize, usize, u32) -> Code;
type ToAsync = unsafe extern "C" fn(*const c_void, *const c_void, usize, usize, u32, Stream) -> Code;
type From = unsafe extern "C" fn(*mut c_void, *const c_void, usize, usize, u32) -> Code;
type FromAsync = unsafe extern "C" fn(*mut c_void, *const c_void, usize, usize, u32, Stream) -> Code;

/// `cudaMemcpyToSymbol`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpyToSymbol`.
pub unsafe fn to_symbol(
    native: To,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: u32,
) -> Answer {
    // SAFETY: the arguments are those that the program passed: contract of `cudaMemcpyToSymbol`.
    unsafe {
        let part = VariablePart {
            symbol,
            offset,
            is_target: true,
            stream: None,
        };
        to(part, src, count, kind, || {
            native(symbol, src, count, offset, kind)
        })
    }
}

/// `cudaMemcpyToSymbolAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpyToSymbolAsync`.
pub unsafe fn to_symbol_async(
    native: ToAsync,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: u32,
    stream: Stream,
) -> Answer {
    // SAFETY: the program's arguments, and the runtime's stream for the program's: contract of
    // `cudaMemcpyToSymbolAsync`.
    unsafe {
        let part = VariablePart {
            symbol,
            offset,
            is_target: true,
            stream: Some(stream),
        };
        to(part, src, count, kind, || {
            on(stream, |stream| native(symbol, src, count, offset, kind, stream))
        })
    }
}

/// `cudaMemcpyFromSymbol`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpyFromSymbol`.
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
    // SAFETY: the arguments are those that the program passed: contract of `cudaMemcpyFromSymbol`.
    touch(
        VariablePart {
            symbol,
            offset,
            is_target: false,
            stream: None,
        },
        span,
        || unsafe { native(dst, symbol, count, offset, kind) },
    )
}

/// `cudaMemcpyFromSymbolAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpyFromSymbolAsync`.
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
    // SAFETY: the arguments are those that the program passed: contract of `cudaMemcpyFromSymbolAsync`.
    touch(
        VariablePart {
            symbol,
            offset,
            is_target: false,
            stream: Some(stream),
        },
        span,
        || {
            // SAFETY: the program's arguments, and the runtime's stream for the program's: contract of
            // `cudaMemcpyFromSymbolAsync`.
            on(stream, |stream| unsafe {
                native(dst, symbol, count, offset, kind, stream)
            })
        },
    )
}

/// # Safety
/// Where `kind` reads host memory, `src` has `count` readable bytes.
unsafe fn to(
    part: VariablePart,
    src: *const c_void,
    count: usize,
    kind: u32,
    call: impl Fn() -> Code,
) -> Answer {
    let has_source = !src.is_null() && count > 0;
    let mut state = state::lock();
    if has_source && !state.in_arena(src as u64) {
        let hint = thread::with(|thread| thread.take_hint());
        let key = state.task_of_hint(hint);
        // With static tasks about, which may run elsewhere, the variable is written at once.
        let alone = state.is_lazy(key) && state.tasks().all(|(key, _)| state.is_lazy(key));
        let inside = super::variables::holds(part.symbol as usize, part.offset, count);
        if alone && inside && is_recorded(&state, key, count) && may_take(src, kind) {
            // SAFETY: not in the arena, and `may_take` found it to be host memory, with `count` readable
            // bytes: contract of this function.
            let host = unsafe { std::slice::from_raw_parts(src.cast::<u8>(), count) };
            if let Some(task) = state.task(key) {
                task.records.push(Record::Symbol {
                    symbol: part.symbol as usize,
                    offset: part.offset,
                    bytes: host.into(),
                });
                task.publish();
            }
            return Ok(Code::SUCCESS);
        }
        if let Some(hint) = hint {
            thread::with(|thread| thread.hint(hint));
        }
    }
    drop(state);
    touch(
        part,
        Span {
            address: src as u64,
            bytes: count as u64,
        },
        call,
    )
}

/// The part of a device variable that a copy touches.
#[derive(Clone, Copy)]
struct VariablePart {
    symbol: *const c_void,
    offset: usize,
    /// Whether it is written.
    is_target: bool,
    stream: Option<Stream>,
}

impl VariablePart {
    /// Copies between the variable on the first GPU and memory of the second.
    fn copy_between(self, other: Span, ordinals: Ordinals) -> Code {
        let (mut address, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: they write one word each; the variable is the caller's.
        let codes = unsafe {
            [
                native::cudaGetSymbolAddress(&mut address, self.symbol),
                native::cudaGetSymbolSize(&mut size, self.symbol),
            ]
        };
        if let Some(code) = codes.into_iter().find(|code| !code.is_success()) {
            return code;
        }
        if (self.offset as u64)
            .checked_add(other.bytes)
            .is_none_or(|end| end > size as u64)
        {
            return Code::INVALID_VALUE;
        }
        let (variable, memory) = (
            address.wrapping_byte_add(self.offset),
            other.address as *mut c_void,
        );
        let count = other.bytes as usize;
        // SAFETY: the object was checked by the caller, the variable here.
        unsafe {
            if self.is_target {
                from_gpu_to_gpu(variable, memory, count, &ordinals, self.stream)
            } else {
                let ordinals = Ordinals {
                    first: ordinals.second,
                    second: ordinals.first,
                };
                from_gpu_to_gpu(memory, variable, count, &ordinals, self.stream)
            }
        }
    }
}

/// Runs the copy on the task that the pass named in a hint, else the one of the object at the other end, else
/// the lazy one. The first use of a variable takes the driver memory for all of its module.
fn touch(part: VariablePart, other: Span, call: impl Fn() -> Code) -> Answer {
    let hint = thread::with(|thread| thread.take_hint());
    let answer = touch_once(part, other, hint, &call);
    if answer == Ok(Code::MEMORY_ALLOCATION) {
        let key = || state::lock().task_of_hint(hint);
        return driver_memory::again(key, || touch_once(part, other, hint, &call));
    }
    answer
}

fn touch_once(
    part: VariablePart,
    other: Span,
    hint: Option<SiteHint>,
    call: impl FnOnce() -> Code,
) -> Answer {
    let mut state = state::lock();
    let owner = if other.bytes == 0 {
        None
    } else {
        task_of(&state, other)?
    };
    let owner = owner.map(|owner| claim(&mut state, hint, owner));
    let key = match owner {
        Some(owner) if hint.is_none() => owner,
        _ => state.task_of_hint(hint),
    };
    let gpu = state.bound_gpu(state::current());
    drop(state);
    match owner {
        Some(owner) if owner != key => {
            // The call runs where the variable is.
            two::across(key, owner, part.stream, |ordinals| {
                if ordinals.are_one() {
                    call()
                } else {
                    part.copy_between(other, ordinals)
                }
            })
        }
        _ => run::on_task(
            key,
            Asked {
                gpu,
                ..Asked::default()
            },
            || run::in_order(part.stream, call),
        ),
    }
}
