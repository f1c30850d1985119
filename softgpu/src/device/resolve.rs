//! The stream and the device that a handle of the program names.

use std::sync::Arc;

use mgb_abi::stream::{STREAM_LEGACY, STREAM_PER_THREAD};

use super::current;
use super::gpu::Gpu;
use super::node::node;
use crate::error::Result;
use crate::stream::{DeviceStream, handle};

/// The stream that a handle names, and its device, with a healthy context.
///
/// # Errors
/// `INVALID_HANDLE`, and those of [`current::active`].
pub fn stream(handle: usize) -> Result<(&'static Gpu, Arc<DeviceStream>)> {
    if handle > STREAM_PER_THREAD {
        let stream = handle::find(handle)?;
        let gpu = node()?.gpu(stream.ordinal as i32)?;
        gpu.check()?;
        return Ok((gpu, stream));
    }
    let gpu = current::active()?;
    let own = handle == STREAM_PER_THREAD || (handle != STREAM_LEGACY && handle::own_default());
    Ok((
        gpu,
        if own {
            gpu.streams.per_thread()
        } else {
            gpu.streams.legacy().clone()
        },
    ))
}
