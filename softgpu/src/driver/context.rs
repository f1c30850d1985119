//! Primary contexts. There are no others: `cuCtxCreate` is not here.

use std::ffi::{c_int, c_uint};

use super::{current, driver, gpu, gpu_of};
use crate::device::current as thread;
use crate::device::{Gpu, node};
use crate::entry::put;
use crate::error::{Error, Result};
use crate::graph::capture;

/// Waits for a device's work.
///
/// # Errors
/// What a capture forbids; the error that the context is stuck in.
pub fn synchronize(gpu: &Gpu) -> Result {
    capture::refuse_device(gpu.ordinal)?;
    gpu.streams.finish();
    gpu.check()
}

driver! {
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
        let gpu = gpu(device)?;
        gpu.retain()?;
        put!(context, gpu.context_handle());
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        gpu(device)?.release()
    }

    fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        gpu(device)?.reset();
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, _flags: c_uint) {
        gpu(device).map(drop)
    }

    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) {
        let gpu = gpu(device)?;
        put!(flags, 0);
        put!(active, c_int::from(gpu.is_active()));
        Ok(())
    }

    fn cuCtxGetCurrent(context: *mut usize) {
        node()?;
        put!(context, thread::context().map_or(0, |gpu| gpu.context_handle()));
        Ok(())
    }

    fn cuCtxSetCurrent(context: usize) {
        node()?;
        thread::set_context(if context == 0 { None } else { Some(gpu_of(context)?) });
        Ok(())
    }

    fn cuCtxGetDevice(device: *mut c_int) {
        put!(device, current()?.ordinal as c_int);
        Ok(())
    }

    fn cuCtxGetId(context: usize, id: *mut u64) {
        let gpu = if context == 0 { current()? } else { gpu_of(context)? };
        put!(id, gpu.context_number().ok_or(Error::INVALID_CONTEXT)?);
        Ok(())
    }

    fn cuCtxSynchronize() {
        synchronize(current()?)
    }
}
