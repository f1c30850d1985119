//! Making streams, and asking whether they capture.

use std::ffi::{c_int, c_uint};

use mgb_abi::stream::{CAPTURE_STATUS_ACTIVE, CAPTURE_STATUS_NONE, STREAM_NON_BLOCKING};

use super::{current, driver};
use crate::entry::put;
use crate::error::Error;
use crate::graph::capture;
use crate::stream::capture::Mode;
use crate::stream::handle;

driver! {
    fn cuStreamCreate(stream: *mut usize, flags: c_uint) {
        if flags & !STREAM_NON_BLOCKING != 0 {
            return Err(Error::INVALID_VALUE);
        }
        put!(stream, handle::publish(current()?.streams.create(flags, 0)));
        Ok(())
    }

    fn cuStreamDestroy_v2(stream: usize) {
        let stream = handle::take(stream)?;
        if let Some(part) = stream.part().lock().as_ref() {
            part.capture.invalidate();
        }
        stream.close();
        Ok(())
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) {
        // SAFETY: `mode` is null or valid for reads: CUDA's contract of the function.
        let new = Mode::new(*unsafe { mode.as_ref() }.ok_or(Error::INVALID_VALUE)?)?;
        put!(mode, capture::exchange_mode(new) as u32);
        Ok(())
    }

    fn cuStreamIsCapturing(stream: usize, status: *mut c_int) {
        let (_, stream) = super::stream(stream)?;
        capture::implicit(&stream)?;
        let captures = stream.part().lock().is_some();
        put!(status, if captures { CAPTURE_STATUS_ACTIVE } else { CAPTURE_STATUS_NONE });
        Ok(())
    }
}
