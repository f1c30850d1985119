//! Waiting for streams and events, and asking them.

use std::ffi::c_int;
use std::sync::Arc;

use super::{driver, stream};
use crate::device::{Gpu, current};
use crate::entry::put;
use crate::error::{Error, Result};
use crate::graph::capture;
use crate::stream::event::find;
use crate::stream::{DeviceStream, Fence};

/// Waits for what a stream has been given so far.
///
/// # Errors
/// What a capture forbids; the error that the context is stuck in.
pub fn synchronize(gpu: &Gpu, stream: &Arc<DeviceStream>) -> Result {
    capture::refuse(stream)?;
    for fence in gpu.streams.fences_of(stream) {
        fence.host_wait();
    }
    gpu.check()
}

/// Whether a stream has done all that it was given.
///
/// # Errors
/// `NOT_READY` where it has not; what a capture forbids; the error that the context is stuck in.
pub fn query(gpu: &Gpu, stream: &Arc<DeviceStream>) -> Result {
    capture::refuse(stream)?;
    let passed = gpu.streams.fences_of(stream).iter().all(Fence::query);
    gpu.check()?;
    if passed { Ok(()) } else { Err(Error::NOT_READY) }
}

/// Waits until an event has passed.
///
/// # Errors
/// `INVALID_HANDLE`, `CAPTURED_EVENT`.
pub fn synchronize_event(event: usize) -> Result {
    let found = find(event)?;
    if let Some(foreign) = found.foreign() {
        foreign.wait();
    } else if let Some(fence) = found.fence()? {
        fence.host_wait();
    }
    Ok(())
}

/// Whether an event has passed.
///
/// # Errors
/// `INVALID_HANDLE`, `CAPTURED_EVENT`.
pub fn has_passed(event: usize) -> Result<bool> {
    let found = find(event)?;
    Ok(match found.foreign() {
        Some(foreign) => foreign.passed(),
        None => found.fence()?.is_none_or(|fence| fence.query()),
    })
}

/// The error that the thread's context, if there is one, is stuck in.
fn healthy() -> Result {
    current::context().map_or(Ok(()), Gpu::check)
}

driver! {
    fn cuStreamSynchronize(handle: usize) {
        let (gpu, stream) = stream(handle)?;
        synchronize(gpu, &stream)
    }

    fn cuStreamQuery(handle: usize) {
        let (gpu, stream) = stream(handle)?;
        query(gpu, &stream)
    }

    fn cuStreamGetCtx(handle: usize, context: *mut usize) {
        put!(context, stream(handle)?.0.context_handle());
        Ok(())
    }

    fn cuStreamGetDevice(handle: usize, device: *mut c_int) {
        let stream = stream(handle)?.1;
        capture::refuse_question(&stream)?;
        put!(device, stream.ordinal as c_int);
        Ok(())
    }

    fn cuEventSynchronize(event: usize) {
        synchronize_event(event)?;
        healthy()
    }

    fn cuEventQuery(event: usize) {
        let passed = has_passed(event)?;
        healthy()?;
        if passed { Ok(()) } else { Err(Error::NOT_READY) }
    }
}
