//! The device and context that the calling host thread uses.

use std::cell::Cell;

use super::gpu::Gpu;
use super::node::node;
use crate::driver_front;
use crate::error::Result;

thread_local! {
    static ORDINAL: Cell<usize> = const { Cell::new(0) };
    /// The device whose context is current, as the driver API sees it.
    static CONTEXT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The current device.
///
/// # Errors
/// Those of [`node`].
pub fn gpu() -> Result<&'static Gpu> {
    let node = node()?;
    node.gpu(ORDINAL.get() as i32)
}

/// The current device, with a context that is current and healthy.
///
/// # Errors
/// Those of [`node`] and [`Gpu::enter`].
pub fn active() -> Result<&'static Gpu> {
    let gpu = with_context()?;
    gpu.check()?;
    Ok(gpu)
}

/// The current device, with a context that is current, whatever the process is stuck in.
///
/// # Errors
/// Those of [`node`] and [`Gpu::have_context`]; what the device itself is stuck in.
fn with_context() -> Result<&'static Gpu> {
    let gpu = gpu()?;
    gpu.have_context()?;
    gpu.check_own()?;
    if CONTEXT.get() != Some(gpu.ordinal) {
        match driver_front::front() {
            Some(front) => front.cuCtxSetCurrent(gpu.context_handle())?,
            None => CONTEXT.set(Some(gpu.ordinal)),
        }
    }
    Ok(gpu)
}

/// `cudaSetDevice`: the device is current even if its context cannot be made. A context that is there is good
/// enough, also after a fault.
///
/// # Errors
/// `INVALID_DEVICE`, those of [`Gpu::have_context`], and what the device itself is stuck in.
pub fn set(ordinal: i32) -> Result {
    ORDINAL.set(node()?.gpu(ordinal)?.ordinal);
    with_context().map(drop)
}

/// The device whose context is current.
pub fn context() -> Option<&'static Gpu> {
    node().ok()?.gpu(CONTEXT.get()? as i32).ok()
}

/// `cuCtxSetCurrent`: the runtime follows.
pub fn set_context(gpu: Option<&'static Gpu>) {
    CONTEXT.set(gpu.map(|gpu| gpu.ordinal));
    if let Some(gpu) = gpu {
        ORDINAL.set(gpu.ordinal);
    }
}
