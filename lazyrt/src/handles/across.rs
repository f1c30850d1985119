//! Work of one handle on several GPUs: going there and back, and what waits for what.

use mgb_abi::stream::EVENT_DISABLE_TIMING;

use crate::code::{Code, Own, fail};
use crate::native::{self, Stream};
use crate::{device, state, thread};

/// The GPU whose context is current on this thread.
pub fn current() -> Option<u32> {
    thread::with(|thread| thread.gpu())
}

/// The GPU where this thread's default streams are: that of the program's current device, if it may use
/// several; else where this thread's last op was.
pub fn home() -> Option<u32> {
    if state::may_be_several() {
        let lazy = state::lazy_shared().filter(|lazy| lazy.is_bound());
        let bound = || state::lock().bound_gpu(state::current());
        return lazy.map(|lazy| lazy.placement().0).or_else(bound);
    }
    current().or_else(|| state::lock().bound_gpu(state::current()))
}

/// Runs on another GPU of this process, and comes back.
pub fn elsewhere<T>(gpu: u32, run: impl FnOnce() -> Result<T, Own>) -> Result<T, Own> {
    let before = current();
    device::select(gpu, device::ordinal(gpu)?)?;
    let done = run();
    if let Some(before) = before {
        device::select(before, device::ordinal(before)?)?;
    }
    done
}

/// Makes `stream`, of this thread's GPU, wait for what `there` has been given on the GPU `before`.
pub fn follow(stream: Stream, before: u32, there: Stream) -> Result<(), Own> {
    let mut mark = std::ptr::null_mut();
    elsewhere(before, || {
        // SAFETY: writes one handle; event and stream are of the same GPU.
        check(unsafe { native::cudaEventCreateWithFlags(&mut mark, EVENT_DISABLE_TIMING) })?;
        // SAFETY: `mark` was made on the GPU that `elsewhere` has selected, which is that of the stream
        // `there`.
        check(unsafe { native::cudaEventRecord(mark, there) })
    })?;
    // SAFETY: an event of another GPU may be waited for; it lives until the work is done.
    let waits = check(unsafe { native::cudaStreamWaitEvent(stream, mark, 0) });
    // SAFETY: made above.
    unsafe { native::cudaEventDestroy(mark) };
    waits
}

/// Fails where the runtime did.
pub fn check(code: Code) -> Result<(), Own> {
    if code.is_success() { Ok(()) } else { fail(code) }
}
