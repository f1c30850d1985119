//! What a stream has to do with a capture: its part, and what the parts have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use mgb_abi::stream::{CAPTURE_MODE_GLOBAL, CAPTURE_MODE_RELAXED, CAPTURE_MODE_THREAD_LOCAL};
use parking_lot::Mutex;

use crate::error::{Error, Result};

/// `cudaStreamCaptureMode`: what is forbidden to whom while a capture lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CaptureMode {
    /// To all threads.
    Global = CAPTURE_MODE_GLOBAL,
    /// To the thread that began it.
    ThreadLocal = CAPTURE_MODE_THREAD_LOCAL,
    /// The capture forbids nothing.
    Relaxed = CAPTURE_MODE_RELAXED,
}

impl CaptureMode {
    /// From CUDA's number.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    pub fn new(number: u32) -> Result<CaptureMode> {
        let modes = [
            CaptureMode::Global,
            CaptureMode::ThreadLocal,
            CaptureMode::Relaxed,
        ];
        let mode = modes.into_iter().find(|&mode| mode as u32 == number);
        mode.ok_or(Error::INVALID_VALUE)
    }
}

/// A capture of streams to a graph.
pub struct Capture {
    /// Unique in the process.
    pub id: u64,
    /// What is made.
    pub graph: usize,
    /// The program's own graph, not one made here.
    pub given: bool,
    /// What it forbids.
    pub mode: CaptureMode,
    /// The number of the thread that began it.
    pub thread: u64,
    /// The stream it began in.
    pub origin: u64,
    /// Something forbidden was done.
    pub invalid: AtomicBool,
    /// The streams that take part.
    pub streams: Mutex<Vec<Joined>>,
}

/// A stream's part in a capture.
#[derive(Clone)]
pub struct StreamCapture {
    /// The capture that the part belongs to.
    pub capture: Arc<Capture>,
    /// What the next work comes after.
    pub last: Vec<usize>,
}

/// Where a stream keeps its part in a capture, if it captures.
pub type CaptureSlot = Arc<Mutex<Option<StreamCapture>>>;

/// A stream that takes part in a capture.
#[derive(Clone)]
pub struct Joined {
    /// The ordinal of its device.
    pub ordinal: usize,
    /// Whether it waits for the legacy stream, and the legacy stream for it.
    pub blocking: bool,
    /// The part of the capture.
    pub part: CaptureSlot,
}

impl Capture {
    /// Ends what it could become.
    pub fn invalidate(&self) {
        self.invalid.store(true, Relaxed);
    }

    /// Whether something forbidden was done.
    pub fn is_invalid(&self) -> bool {
        self.invalid.load(Relaxed)
    }
}

impl StreamCapture {
    /// Checks that the capture can go on.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_INVALIDATED`.
    pub fn check(&self) -> Result {
        if self.capture.is_invalid() {
            return Err(Error::STREAM_CAPTURE_INVALIDATED);
        }
        Ok(())
    }
}
