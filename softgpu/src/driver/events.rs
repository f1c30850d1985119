//! Making and recording events.

use std::ffi::c_uint;

use mgb_abi::stream::{EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING, EVENT_INTERPROCESS};

use super::{current, driver, stream};
use crate::entry::put;
use crate::error::{Error, Result};
use crate::graph::capture;
use crate::stream::event::{self, find};

/// An event with these flags, in a context that is there.
///
/// # Errors
/// `INVALID_VALUE`: unknown flags, or one for other processes that takes times.
pub fn create(flags: c_uint) -> Result<usize> {
    let known = EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING | EVENT_INTERPROCESS;
    let timed = flags & EVENT_DISABLE_TIMING == 0;
    if flags & !known != 0 || (flags & EVENT_INTERPROCESS != 0 && timed) {
        return Err(Error::INVALID_VALUE);
    }
    event::create(flags)
}

driver! {
    fn cuEventCreate(event: *mut usize, flags: c_uint) {
        current()?;
        put!(event, create(flags)?);
        Ok(())
    }

    fn cuEventDestroy_v2(event: usize) {
        event::destroy(event)
    }

    fn cuEventRecord(event: usize, handle: usize) {
        let found = find(event)?;
        let (gpu, stream) = stream(handle)?;
        if !capture::record(&stream, &found)? {
            found.record(&gpu.streams, &stream);
        }
        Ok(())
    }
}
