//! Events recorded before their stream was on any GPU.
//!
//! Such an event marks a moment at which the stream had nothing to do: it is done, and it is recorded in
//! earnest before the stream's first work, so that times count from there.

use std::sync::atomic::{AtomicPtr, Ordering};

use parking_lot::Mutex;

use super::across::{check, current};
use super::slot::{BEFORE, Handle, HandleKind, Slot, find};
use crate::code::Own;
use crate::device;
use crate::native::{self, Stream};

/// Events recorded on default streams before the process had a context.
pub static DEFAULTS: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

/// The event on this thread's GPU.
pub fn here(slot: &Slot, gpu: u32) -> Result<Handle, Own> {
    let place: &AtomicPtr<_> = slot.real(gpu);
    let real = place.load(Ordering::Acquire);
    if !real.is_null() {
        return Ok(real);
    }
    let _moving = slot.moving.lock();
    let _relaxed = device::RelaxedCapture::begin();
    let mut real = place.load(Ordering::Acquire);
    if real.is_null() {
        // SAFETY: writes one handle.
        check(unsafe { native::cudaEventCreateWithFlags(&mut real, slot.flags()) })?;
        place.store(real, Ordering::Release);
    }
    Ok(real)
}

/// Notes that the event is to be recorded before the stream's first work.
pub fn early(slot: &'static Slot, on: Stream) -> Result<(), Own> {
    forget_early(slot);
    slot.note_now();
    slot.last.store(BEFORE, Ordering::Release);
    let stream = find(on, HandleKind::Stream)?;
    stream.map_or(&DEFAULTS, |stream| &stream.early).lock().push(slot);
    Ok(())
}

/// Removes an early event that is now recorded for real, or that ends.
pub fn forget_early(slot: &'static Slot) {
    if slot.last.load(Ordering::Acquire) == BEFORE {
        DEFAULTS.lock().retain(|other| !std::ptr::eq(*other, slot));
        // The list of another stream keeps the event: when that list is recorded, `last` shows
        // that the event is to be skipped.
    }
}

/// Records the early events of a stream, once the stream is on a GPU.
pub fn record_early_on(stream: &'static Slot, gpu: u32, real_stream: Stream) {
    let early = std::mem::take(&mut *stream.early.lock());
    record_all(early, gpu, real_stream);
}

/// Records, on this thread's GPU, the early events of default streams.
pub fn record_early(list: &Mutex<Vec<&'static Slot>>) {
    if let Some(gpu) = current() {
        let early = std::mem::take(&mut *list.lock());
        record_all(early, gpu, std::ptr::null_mut());
    }
}

fn record_all(early: Vec<&'static Slot>, gpu: u32, real_stream: Stream) {
    for slot in early {
        if slot.last.load(Ordering::Acquire) != BEFORE || !slot.alive.load(Ordering::Acquire) {
            continue;
        }
        let Ok(event) = here(slot, gpu) else { continue };
        // SAFETY: event and stream are of this GPU.
        if unsafe { native::cudaEventRecord(event, real_stream) }.is_success() {
            slot.last.store(gpu + 1, Ordering::Release);
        }
    }
}

/// A context was made: what was recorded on default streams before comes first there.
pub fn context_made() {
    record_early(&DEFAULTS);
}
