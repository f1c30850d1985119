//! Arguments that several families of functions read alike.

use mgb_abi::location::{LOCATION_DEVICE, MemLocation};
use mgb_abi::stream::STREAM_LEGACY;

use crate::device::node;
use crate::error::{Error, Result};
use crate::stream::handle;

/// Reads the caller's structure.
pub(super) fn read<T: std::marker::Copy>(parameters: *const T) -> Result<T> {
    // SAFETY: `parameters` is null or valid for reads: CUDA's contract of the functions that pass it.
    unsafe { parameters.as_ref() }
        .copied()
        .ok_or(Error::INVALID_VALUE)
}

/// Batches are in a stream of the program's own, or the thread's.
///
/// # Errors
/// `INVALID_VALUE` for the default stream of all threads.
pub(super) fn own_stream(stream: usize) -> Result {
    if matches!(stream, 0 | STREAM_LEGACY) && !handle::own_default() {
        return Err(Error::INVALID_VALUE);
    }
    Ok(())
}

/// What a hint names is there, if it names a device.
///
/// # Errors
/// `INVALID_VALUE`.
pub(super) fn exists(place: MemLocation) -> Result {
    if place.kind == LOCATION_DEVICE {
        node()?.gpu(place.id).map_err(|_| Error::INVALID_VALUE)?;
    }
    Ok(())
}
