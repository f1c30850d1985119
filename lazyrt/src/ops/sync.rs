//! Waiting: for every GPU the process is on, or for a stream. While nothing is bound there is nothing to
//! wait for.

use crate::code::{Answer, Code};
use crate::handles::default::LAST_DEFAULT;
use crate::native::Stream;
use crate::{device, foreign_cuda, handles, thread};

/// `cudaDeviceSynchronize`.
///
/// # Safety
/// None needed; the type is that of all treatments.
pub unsafe fn device(_native: unsafe extern "C" fn() -> Code) -> Answer {
    thread::with(|thread| thread.take_hint());
    let mut answer = Code::SUCCESS;
    for (gpu, ordinal) in device::with_context() {
        let code = device::synchronize(gpu, ordinal)?;
        if answer.is_success() {
            answer = code;
        }
    }
    super::sources::settle_all();
    Ok(answer)
}

/// `cudaStreamSynchronize` and `cudaStreamQuery`.
///
/// # Safety
/// The arguments meet the contract of `cudaStreamSynchronize`.
pub unsafe fn stream(native: unsafe extern "C" fn(Stream) -> Code, stream: Stream) -> Answer {
    thread::with(|thread| thread.take_hint());
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
    let mut answer = Code::SUCCESS;
    for (gpu, ordinal) in device::with_context() {
        device::select(gpu, ordinal)?;
        // SAFETY: the handle of a default stream, which every device has.
        let code = unsafe { native(stream) };
        if answer.is_success() || answer == Code::NOT_READY {
            answer = if code.is_success() { answer } else { code };
        }
    }
    Ok(answer)
}
