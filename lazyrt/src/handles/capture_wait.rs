//! Waiting for a GPU while streams capture. A wait for the whole device would end every capture on it, which
//! CUDA's calls that free memory do not.

use std::ffi::c_void;

use mgb_abi::stream::{CAPTURE_STATUS_NONE, EVENT_DISABLE_TIMING};
use mgb_core::captures;

use super::across::check;
use super::slot::{self, HandleKind};
use crate::code::{Answer, Code, Own};
use crate::native::{self, Stream};
use crate::{device, foreign_cuda};

/// Waits for what the process has under way on the GPU, for a call that frees memory.
pub fn wait(gpu: u32, ordinal: i32) -> Answer {
    if let Some(answer) = captures::settle(|| device::synchronize(gpu, ordinal)) {
        return answer;
    }
    if foreign_cuda::is_open() {
        // Not all of its streams are known.
        return device::synchronize(gpu, ordinal);
    }
    let _relaxed = device::RelaxedCapture::begin();
    device::select(gpu, ordinal)?;
    for mark in marks(gpu)? {
        // SAFETY: an event that is there.
        let code = unsafe { native::cudaEventSynchronize(mark.0) };
        if !code.is_success() {
            return Ok(code);
        }
    }
    // The legacy stream comes after all blocking ones, the default streams of all threads among them.
    device::settle_default(gpu, ordinal)
}

/// An event at the end of each stream of the program's that has the GPU and does not capture.
fn marks(gpu: u32) -> Result<Vec<Mark>, Own> {
    let _none_begins = captures::hold_off();
    let mut marks = Vec::new();
    for slot in slot::all().filter(|slot| slot.kind() == HandleKind::Stream) {
        let _stays = slot.moving.lock();
        let real = slot.real_if_any(gpu);
        if !real.is_null() && !captures_now(real) {
            marks.push(Mark::record(real)?);
        }
    }
    Ok(marks)
}

fn captures_now(real: Stream) -> bool {
    let mut status = CAPTURE_STATUS_NONE;
    // SAFETY: writes one number; the stream is there.
    let code = unsafe { native::cudaStreamIsCapturing(real, &mut status) };
    code == Code::SUCCESS && status != CAPTURE_STATUS_NONE
}

/// An event of lazyrt's own, for one wait.
struct Mark(*mut c_void);

impl Mark {
    /// At the end of what the stream was given, which is of the current GPU and does not capture.
    fn record(stream: Stream) -> Result<Mark, Own> {
        let mut mark = Mark(std::ptr::null_mut());
        // SAFETY: writes one handle.
        check(unsafe { native::cudaEventCreateWithFlags(&mut mark.0, EVENT_DISABLE_TIMING) })?;
        // SAFETY: made above; the stream is there: its slot is locked.
        check(unsafe { native::cudaEventRecord(mark.0, stream) })?;
        Ok(mark)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made by `record`, and destroyed once.
            unsafe { native::cudaEventDestroy(self.0) };
        }
    }
}
