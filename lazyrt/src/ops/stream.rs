//! Streams. In a closed process they are lazyrt's own handles (`handles`), which need no GPU to be made.

use std::ffi::c_void;

use mgb_core::work;

use super::passthrough;
use crate::code::{Answer, Code, Own, fail};
use crate::handles::stream as own;
use crate::handles::{self, HandleKind, default, foreign, is_own, on};
use crate::native::Stream;
use crate::{fault, foreign_cuda, thread};

/// `cudaStreamCreate`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn create(native: unsafe extern "C" fn(*mut Stream) -> Code, out: *mut Stream) -> Answer {
    // SAFETY: `out` is null or writable: contract of this function, and of `cudaStreamCreate`.
    unsafe { new(out, 0, None, || native(out)) }
}

/// `cudaStreamCreateWithFlags`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn create_with_flags(
    native: unsafe extern "C" fn(*mut Stream, u32) -> Code,
    out: *mut Stream,
    flags: u32,
) -> Answer {
    // SAFETY: `out` is null or writable: contract of this function, and of `cudaStreamCreateWithFlags`.
    unsafe { new(out, flags, None, || native(out, flags)) }
}

/// `cudaStreamCreateWithPriority`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn create_with_priority(
    native: unsafe extern "C" fn(*mut Stream, u32, i32) -> Code,
    out: *mut Stream,
    flags: u32,
    priority: i32,
) -> Answer {
    // SAFETY: `out` is null or writable: contract of this function, and of `cudaStreamCreateWithPriority`.
    unsafe { new(out, flags, Some(priority), || native(out, flags, priority)) }
}

/// # Safety
/// `out` is null or writable.
unsafe fn new(out: *mut Stream, flags: u32, priority: Option<i32>, native: impl FnOnce() -> Code) -> Answer {
    thread::with(|thread| thread.take_hint());
    if foreign_cuda::is_open() {
        let code = passthrough::run_blind(native)?;
        if code.is_success()
            && let Some(gpu) = thread::with(|thread| thread.gpu())
        {
            // SAFETY: `out` is null or writable: contract of this function; the runtime refuses null.
            foreign::note(unsafe { out.read() }, gpu);
        }
        return Ok(code);
    }
    if out.is_null() {
        return fail(Code::INVALID_VALUE);
    }
    fault::check()?;
    let stream = own::create(flags, priority)?;
    // SAFETY: `out` is not null, so it is writable: contract of this function.
    unsafe { out.write(stream) };
    Ok(Code::SUCCESS)
}

/// `cudaStreamDestroy`.
///
/// # Safety
/// The arguments meet the contract of `cudaStreamDestroy`.
pub unsafe fn destroy(native: unsafe extern "C" fn(Stream) -> Code, stream: Stream) -> Answer {
    if own::is_own(stream)? {
        return own::destroy(stream);
    }
    foreign::forget(stream);
    // SAFETY: the stream is not lazyrt's, so it goes to the runtime as it is: contract of
    // `cudaStreamDestroy`.
    passthrough::run_blind(|| unsafe { native(stream) })
}

/// `cudaStreamGetFlags`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn flags(
    native: unsafe extern "C" fn(Stream, *mut u32) -> Code,
    stream: Stream,
    out: *mut u32,
) -> Answer {
    match own::facts(stream)? {
        // SAFETY: `out` is null or writable: contract of this function.
        Some((flags, _)) => unsafe { answer(out, flags) },
        // SAFETY: `out` is null or writable: contract of this function; the stream is not lazyrt's.
        None => passthrough::run_blind(|| unsafe { native(stream, out) }),
    }
}

/// `cudaStreamGetDevice`: the device that was the program's when it made the stream.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn device(
    native: unsafe extern "C" fn(Stream, *mut i32) -> Code,
    stream: Stream,
    out: *mut i32,
) -> Answer {
    match own::facts(stream)? {
        // SAFETY: `out` is null or writable: contract of this function.
        Some((_, device)) => unsafe { answer(out, device as i32) },
        // SAFETY: `out` is null or writable: contract of this function; the stream is not lazyrt's.
        None => passthrough::run_blind(|| unsafe { native(stream, out) }),
    }
}

/// # Safety
/// `out` is null or writable.
unsafe fn answer<T>(out: *mut T, value: T) -> Answer {
    if out.is_null() {
        return fail(Code::INVALID_VALUE);
    }
    // SAFETY: `out` is not null, so it is writable: contract of this function.
    unsafe { out.write(value) };
    Ok(Code::SUCCESS)
}

/// `cudaStreamWaitEvent`.
///
/// # Safety
/// The arguments meet the contract of `cudaStreamWaitEvent`.
pub unsafe fn wait_event(
    native: unsafe extern "C" fn(Stream, *mut c_void, u32) -> Code,
    stream: Stream,
    event: *mut c_void,
    flags: u32,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    if foreign_cuda::is_open() && !(is_own(event) || is_own(stream)) {
        // SAFETY: neither handle is lazyrt's, so both go to the runtime as they are: contract of
        // `cudaStreamWaitEvent`.
        return passthrough::run_blind(|| unsafe { native(stream, event, flags) });
    }
    super::event::check_flags(flags)?;
    if flags != 0 {
        // A node of a graph, even if the event was never recorded.
        return passthrough::run_blind(|| {
            on(stream, |stream| {
                match handles::translate(HandleKind::Event, event) {
                    // SAFETY: the runtime's stream and event for the program's: contract of
                    // `cudaStreamWaitEvent`.
                    Ok(event) => unsafe { native(stream, event, flags) },
                    Err(Own(code)) => code,
                }
            })
        });
    }
    handles::event::wait(stream, event, |stream, event| {
        // SAFETY: `event::wait` passes the runtime's handles for the program's: contract of
        // `cudaStreamWaitEvent`.
        unsafe { native(stream, event, flags) }
    })
}

pub type Callback = unsafe extern "C" fn(Stream, Code, *mut c_void);

/// What a callback is called with.
struct Called {
    function: Callback,
    stream: Stream,
    data: *mut c_void,
}

unsafe extern "C" fn called(_stream: Stream, code: Code, data: *mut c_void) {
    // SAFETY: made by `add_callback`; the runtime calls back once.
    let called = unsafe { Box::from_raw(data.cast::<Called>()) };
    // SAFETY: the program's function and data: contract of `cudaStreamAddCallback`.
    unsafe { (called.function)(called.stream, code, called.data) };
}

/// `cudaStreamAddCallback`: the program's function gets the program's handle.
///
/// # Safety
/// The arguments meet the contract of `cudaStreamAddCallback`.
pub unsafe fn add_callback(
    native: unsafe extern "C" fn(Stream, Option<Callback>, *mut c_void, u32) -> Code,
    stream: Stream,
    function: Option<Callback>,
    data: *mut c_void,
    flags: u32,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    let Some(function) = function else {
        return fail(Code::INVALID_VALUE);
    };
    if foreign_cuda::is_open() && !is_own(stream) {
        // SAFETY: the stream is not lazyrt's, so it goes to the runtime as it is: contract of
        // `cudaStreamAddCallback`.
        return passthrough::run_blind(|| unsafe { native(stream, Some(function), data, flags) });
    }
    default::note_shared();
    own::on_its_gpu(stream, |real| {
        let given = Box::into_raw(Box::new(Called {
            function,
            stream,
            data,
        }));
        // SAFETY: the runtime calls `called` once with what it was given, if it succeeds.
        let code = unsafe { native(real, Some(called), given.cast(), flags) };
        note_work();
        if !code.is_success() {
            // SAFETY: made above, and the runtime did not take it.
            drop(unsafe { Box::from_raw(given) });
        }
        code
    })
}

/// `cudaLaunchHostFunc`.
///
/// # Safety
/// The arguments meet the contract of `cudaLaunchHostFunc`.
pub unsafe fn host_function(
    native: unsafe extern "C" fn(Stream, *mut c_void, *mut c_void) -> Code,
    stream: Stream,
    function: *mut c_void,
    data: *mut c_void,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    if foreign_cuda::is_open() && !is_own(stream) {
        // SAFETY: the stream is not lazyrt's, so it goes to the runtime as it is: contract of
        // `cudaLaunchHostFunc`.
        return passthrough::run_blind(|| unsafe { native(stream, function, data) });
    }
    default::note_shared();
    own::on_its_gpu(stream, |stream| {
        // SAFETY: the program's arguments, and the runtime's stream for the program's: contract of
        // `cudaLaunchHostFunc`.
        let code = unsafe { native(stream, function, data) };
        note_work();
        code
    })
}

/// A host function is work of this thread's GPU: memory that it writes is not final before it has run.
fn note_work() {
    if let Some(gpu) = thread::with(|thread| thread.gpu()) {
        work::note(gpu);
    }
}
