//! Limits of contexts.

use crate::code::{Answer, Code};
use crate::{device, native, thread};

/// `cudaDeviceSetLimit`: kept for contexts to come, and set in those that are there.
///
/// # Safety
/// The arguments meet the contract of `cudaDeviceSetLimit`.
pub unsafe fn set_limit(
    _native: unsafe extern "C" fn(u32, usize) -> Code,
    limit: u32,
    value: usize,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    device::keep_limit(limit, value);
    let mut answer = Code::SUCCESS;
    for (gpu, ordinal) in device::with_context() {
        device::select(gpu, ordinal)?;
        // SAFETY: no pointers.
        let code = unsafe { native::cudaDeviceSetLimit(limit, value) };
        if !code.is_success() {
            answer = code;
        }
    }
    Ok(answer)
}
