//! Events. In a closed process they are lazyrt's own handles (`handles`), which need no GPU to be made.

use std::ffi::c_void;

use mgb_abi::stream::EVENT_EXTERNAL;
use mgb_core::urgent;

use super::passthrough;
use crate::code::{Answer, Code, Own, fail};
use crate::handles::event as own;
use crate::handles::is_own;
use crate::native::Stream;
use crate::{contexts, fault, foreign_cuda, in_flight, thread};

type EventHandle = *mut c_void;

/// `cudaEventCreate`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn create(
    native: unsafe extern "C" fn(*mut EventHandle) -> Code,
    out: *mut EventHandle,
) -> Answer {
    // SAFETY: `out` is null or writable: contract of this function, and of `cudaEventCreate`.
    unsafe { new(out, 0, || native(out)) }
}

/// `cudaEventCreateWithFlags`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn create_with_flags(
    native: unsafe extern "C" fn(*mut EventHandle, u32) -> Code,
    out: *mut EventHandle,
    flags: u32,
) -> Answer {
    // SAFETY: `out` is null or writable: contract of this function, and of `cudaEventCreateWithFlags`.
    unsafe { new(out, flags, || native(out, flags)) }
}

/// # Safety
/// `out` is null or writable.
unsafe fn new(out: *mut EventHandle, flags: u32, native: impl FnOnce() -> Code) -> Answer {
    thread::with(|thread| thread.take_hint());
    if foreign_cuda::is_open() {
        return passthrough::run_blind(native);
    }
    if out.is_null() {
        return fail(Code::INVALID_VALUE);
    }
    fault::check()?;
    let event = own::create(flags)?;
    // SAFETY: `out` is not null, so it is writable: contract of this function.
    unsafe { out.write(event) };
    Ok(Code::SUCCESS)
}

/// `cudaEventRecord`.
///
/// # Safety
/// The arguments meet the contract of `cudaEventRecord`.
pub unsafe fn record(
    native: unsafe extern "C" fn(EventHandle, Stream) -> Code,
    event: EventHandle,
    stream: Stream,
) -> Answer {
    in_flight::settle_before(stream);
    thread::with(|thread| thread.take_hint());
    if foreign_cuda::is_open() && !(is_own(event) || is_own(stream)) {
        // SAFETY: neither handle is lazyrt's, so both go to the runtime as they are: contract of
        // `cudaEventRecord`.
        return passthrough::run_blind(|| unsafe { native(event, stream) });
    }
    own::record(event, stream, |event, stream| {
        // SAFETY: `own::record` passes the runtime's handles for the program's: contract of
        // `cudaEventRecord`.
        unsafe { native(event, stream) }
    })
}

/// `cudaEventRecordWithFlags`.
///
/// # Safety
/// The arguments meet the contract of `cudaEventRecordWithFlags`.
pub unsafe fn record_with_flags(
    native: unsafe extern "C" fn(EventHandle, Stream, u32) -> Code,
    event: EventHandle,
    stream: Stream,
    flags: u32,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    if foreign_cuda::is_open() && !(is_own(event) || is_own(stream)) {
        // SAFETY: neither handle is lazyrt's, so both go to the runtime as they are: contract of
        // `cudaEventRecordWithFlags`.
        return passthrough::run_blind(|| unsafe { native(event, stream, flags) });
    }
    check_flags(flags)?;
    own::record(event, stream, |event, stream| {
        // SAFETY: `own::record` passes the runtime's handles for the program's: contract of
        // `cudaEventRecordWithFlags`.
        unsafe { native(event, stream, flags) }
    })
}

/// Fails as CUDA does for flags that are none, and for the external form, which captures alone have: they are
/// on a GPU.
pub fn check_flags(flags: u32) -> Result<(), Own> {
    match flags {
        0 => Ok(()),
        EVENT_EXTERNAL if contexts::any() => Ok(()),
        EVENT_EXTERNAL => fail(Code::ILLEGAL_STATE),
        _ => fail(Code::INVALID_VALUE),
    }
}

/// `cudaEventQuery` and `cudaEventSynchronize`.
///
/// # Safety
/// The arguments meet the contract of `cudaEventQuery`.
pub unsafe fn done(native: unsafe extern "C" fn(EventHandle) -> Code, event: EventHandle) -> Answer {
    thread::with(|thread| thread.take_hint());
    if foreign_cuda::is_open() && !is_own(event) {
        // SAFETY: the event is not lazyrt's, so it goes to the runtime as it is: contract of
        // `cudaEventQuery`.
        return passthrough::run_blind(|| unsafe { native(event) });
    }
    // SAFETY: `own::done` passes the runtime's event for the program's: contract of `cudaEventQuery`.
    let answer = own::done(event, |event| unsafe { native(event) });
    if answer == Ok(Code::SUCCESS) {
        urgent::synchronised();
    }
    answer
}

/// `cudaEventElapsedTime`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn elapsed(
    native: unsafe extern "C" fn(*mut f32, EventHandle, EventHandle) -> Code,
    out: *mut f32,
    start: EventHandle,
    end: EventHandle,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    if foreign_cuda::is_open() && !(is_own(start) || is_own(end)) {
        // SAFETY: `out` is null or writable: contract of this function; neither event is lazyrt's.
        return passthrough::run_blind(|| unsafe { native(out, start, end) });
    }
    if out.is_null() {
        return fail(Code::INVALID_VALUE);
    }
    let (code, between) = own::elapsed(start, end, |between, start, end| {
        // SAFETY: writes one number.
        unsafe { native(between, start, end) }
    })?;
    if code.is_success() {
        // SAFETY: `out` is not null, so it is writable: contract of this function.
        unsafe { out.write(between) };
    }
    Ok(code)
}

/// `cudaEventDestroy`.
///
/// # Safety
/// The arguments meet the contract of `cudaEventDestroy`.
pub unsafe fn destroy(native: unsafe extern "C" fn(EventHandle) -> Code, event: EventHandle) -> Answer {
    if is_own(event) {
        return own::destroy(event);
    }
    // SAFETY: the event is not lazyrt's, so it goes to the runtime as it is: contract of `cudaEventDestroy`.
    passthrough::run_blind(|| unsafe { native(event) })
}

/// `cudaGraphEventRecordNodeGetEvent` and `cudaGraphEventWaitNodeGetEvent`: the program gets its own handle
/// back.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn of_node(
    native: unsafe extern "C" fn(*mut c_void, *mut EventHandle) -> Code,
    node: *mut c_void,
    out: *mut EventHandle,
) -> Answer {
    // SAFETY: `out` is null or writable: contract of this function; the node is the program's.
    let answer = passthrough::run(|| unsafe { native(node, out) })?;
    if answer.is_success() && !out.is_null() {
        // SAFETY: it is not null, so it is writable: contract of this function; the runtime has written it.
        unsafe {
            out.write(crate::handles::program_handle(
                crate::handles::HandleKind::Event,
                out.read(),
            ));
        }
    }
    Ok(answer)
}
