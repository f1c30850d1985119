//! The driver's functions that make streams.

use std::ffi::c_uint;

use mgb_abi::stream::STREAM_NON_BLOCKING;

use super::{current, driver};
use crate::entry::put;
use crate::error::{Error, Result};
use crate::stream::handle;

/// Ends the stream; its submitted work continues.
///
/// # Errors
/// `INVALID_HANDLE`.
pub fn destroy(stream: usize) -> Result {
    let stream = handle::take(stream)?;
    if let Some(part) = stream.part().lock().as_ref() {
        part.capture.invalidate();
    }
    stream.close();
    Ok(())
}

driver! {
    fn cuStreamCreate(stream: *mut usize, flags: c_uint) {
        if flags & !STREAM_NON_BLOCKING != 0 {
            return Err(Error::INVALID_VALUE);
        }
        put!(stream, handle::publish(current()?.streams.create(flags, 0)));
        Ok(())
    }

    fn cuStreamDestroy_v2(stream: usize) {
        destroy(stream)
    }
}
