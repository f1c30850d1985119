//! Waiting: for every GPU the process is on, or for a stream. While nothing is bound there is nothing to
//! wait for.
//!
//! What the current device's streams were given may run on a GPU of another device. So all GPUs are waited
//! for, and an error counts unless its GPU is another device's: each device has its own errors, but for a
//! fault of a kernel, which is the process's.

use mgb_core::urgent;

use super::errors;
use crate::code::{Answer, Code, Own};
use crate::handles::default::LAST_DEFAULT;
use crate::native::Stream;
use crate::{device, fault, foreign_cuda, handles, in_flight, state, thread};

/// `cudaDeviceSynchronize`.
///
/// # Safety
/// None needed; the type is that of all treatments.
pub unsafe fn device(_native: unsafe extern "C" fn() -> Code) -> Answer {
    thread::with(|thread| thread.take_hint());
    let answer = on_all(device::synchronize);
    super::sources::settle_all();
    fault::note(answer);
    // The answer of a device that had nothing to wait for, or no context.
    fault::check()?;
    if answer.is_success() {
        urgent::synchronised();
    }
    Ok(answer)
}

/// Waits on every GPU of the process. The first error among those of the current device, else whether any
/// GPU is not ready.
fn on_all(wait: impl Fn(u32, i32) -> Answer) -> Code {
    let others = if state::may_be_several() {
        state::lock().gpus_of_others(state::current())
    } else {
        0
    };
    let is_of_another = |gpu: u32| others & (1 << gpu) != 0;
    let mut gpus: Vec<_> = device::with_context().collect();
    // Where the thread is afterwards, the runtime looks for the last error.
    gpus.sort_by_key(|&(gpu, _)| !is_of_another(gpu));
    let mut answer = Code::SUCCESS;
    for (gpu, ordinal) in gpus {
        let code = if is_of_another(gpu) {
            without_error(|| wait(gpu, ordinal))
        } else {
            wait(gpu, ordinal).unwrap_or_else(|Own(code)| code)
        };
        if answer.is_success() || answer == Code::NOT_READY && !code.is_success() {
            answer = code;
        }
    }
    answer
}

/// Waits on another device's GPU: its error is that device's, and not this thread's last one, unless it is
/// the process's.
fn without_error(wait: impl FnOnce() -> Answer) -> Code {
    match errors::untold(wait).unwrap_or_else(|Own(code)| code) {
        code if code == Code::NOT_READY || code.is_of_process() => code,
        _ => Code::SUCCESS,
    }
}

/// `cudaStreamSynchronize`.
///
/// # Safety
/// The arguments meet the contract of `cudaStreamSynchronize`.
pub unsafe fn stream(native: unsafe extern "C" fn(Stream) -> Code, stream: Stream) -> Answer {
    in_flight::settle_before(stream);
    is_done(native, stream)
}

/// `cudaStreamQuery`: a program may ask again and again until its work is done.
///
/// # Safety
/// The arguments meet the contract of `cudaStreamQuery`.
pub unsafe fn query(native: unsafe extern "C" fn(Stream) -> Code, stream: Stream) -> Answer {
    if !errors::untold(|| in_flight::are_settled_before(stream)) {
        return Ok(Code::NOT_READY);
    }
    is_done(native, stream)
}

fn is_done(native: unsafe extern "C" fn(Stream) -> Code, stream: Stream) -> Answer {
    thread::with(|thread| thread.take_hint());
    let answer = wait_for(native, stream);
    if answer == Ok(Code::SUCCESS) {
        urgent::synchronised();
    }
    answer
}

fn wait_for(native: unsafe extern "C" fn(Stream) -> Code, stream: Stream) -> Answer {
    if stream as usize > LAST_DEFAULT {
        // SAFETY: `stream` is the program's, or the runtime's for it: contract of `cudaStreamSynchronize`.
        let call = |stream| unsafe { native(stream) };
        let answer = if foreign_cuda::is_open() && !handles::is_own(stream) {
            // The process is tied to the GPU of the stream.
            super::passthrough::run_blind(|| call(stream))
        } else {
            handles::stream::done(stream, call)
        };
        super::sources::settle_all();
        return answer;
    }
    Ok(on_all(|gpu, ordinal| {
        device::select(gpu, ordinal)?;
        // SAFETY: the handle of a default stream, which every device has.
        Ok(unsafe { native(stream) })
    }))
}
