//! Freeing: waits for work that may use the object, as CUDA's does.

use std::ffi::c_void;

use mgb_core::work;

use crate::code::{Answer, Code, fail};
use crate::handles::{capture_wait, on};
use crate::native::Stream;
use crate::{contexts, device, fault, foreign_cuda, mapping, restrict, state, thread};

/// `cudaFree`.
///
/// # Safety
/// The arguments meet the contract of `cudaFree`.
pub unsafe fn free(native: unsafe extern "C" fn(*mut c_void) -> Code, pointer: *mut c_void) -> Answer {
    thread::with(|thread| thread.take_hint());
    let address = pointer as u64;
    if address == 0 {
        fault::check()?;
        restrict::have_context()?;
        return Ok(Code::SUCCESS);
    }
    if !state::lock().in_arena(address) {
        return if contexts::any() {
            // Memory of another source: managed memory, a pool's, a library's. SAFETY: the address is not
            // lazyrt's, so it goes to the runtime as it is: contract of `cudaFree`.
            let code = unsafe { native(pointer) };
            if code.is_success() && !super::non_arena::freed(address) {
                super::sources::settle_all();
            }
            Ok(code)
        } else {
            fail(Code::INVALID_VALUE)
        };
    }
    object(address)
}

/// `cudaFreeAsync`: an object of the arena is freed once the GPU is done, which is also in stream order.
///
/// # Safety
/// The arguments meet the contract of `cudaFreeAsync`.
pub unsafe fn free_async(
    native: unsafe extern "C" fn(*mut c_void, Stream) -> Code,
    pointer: *mut c_void,
    stream: Stream,
) -> Answer {
    if !pointer.is_null() && state::lock().in_arena(pointer as u64) {
        thread::with(|thread| thread.take_hint());
        return object(pointer as u64);
    }
    super::passthrough::run(|| {
        // SAFETY: the program's arguments, and the runtime's stream for the program's: contract of
        // `cudaFreeAsync`.
        on(stream, |stream| unsafe { native(pointer, stream) })
    })
}

fn object(address: u64) -> Answer {
    let (behind, lent) = {
        // While the object moves, its backing is not known.
        let state = state::lock_still(address);
        if state.object_at(address).is_none() {
            return fail(Code::INVALID_VALUE);
        }
        (state.gpu_behind(address), state.is_lent(address))
    };
    // A program with one device waits for all work of the device, on whichever GPU it is, and whatever
    // the object is.
    let all = lent || !state::may_be_several();
    let mut code = Code::SUCCESS;
    for (gpu, ordinal) in device::with_context().filter(|&(gpu, _)| all || behind == Some(gpu)) {
        if work::is_busy(gpu) || foreign_cuda::is_open() {
            let done = capture_wait::wait(gpu, ordinal)?;
            code = if code.is_success() { done } else { code };
        }
    }
    let freed = state::lock_still(address).free(address);
    match freed {
        Some(freed) => mapping::finish_free(freed),
        // Another thread was faster.
        None => return fail(Code::INVALID_VALUE),
    }
    Ok(code)
}
