//! Events: marks in streams, with the device time at which they were passed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use mgb_abi::stream::{EVENT_DISABLE_TIMING, EVENT_INTERPROCESS};
use parking_lot::{Mutex, RwLock};

use super::capture::StreamCapture;
use super::queue::{DeviceStream, Fence};
use super::set::Streams;
use super::shared::{self, ForeignRecord, SharedEvent};
use crate::error::{Error, Result};

/// What `cudaEvent_t` points to.
pub struct CudaEvent {
    flags: u32,
    /// For other processes too.
    shared: Option<SharedEvent>,
    mark: Mutex<Mark>,
}

/// Where an event was last recorded.
enum Mark {
    /// The event was not recorded yet.
    None,
    /// In a stream; with the moment, once passed.
    Stream(Fence, Arc<AtomicU64>),
    /// In a stream that captured.
    Captured(StreamCapture),
}

static HANDLES: LazyLock<RwLock<HashMap<usize, Arc<CudaEvent>>>> = LazyLock::new(RwLock::default);

/// Makes an event and a handle for it.
///
/// # Errors
/// `OPERATING_SYSTEM` for one that processes are to share.
pub fn create(flags: u32) -> Result<usize> {
    let shared = if flags & EVENT_INTERPROCESS == 0 {
        None
    } else {
        Some(SharedEvent::new()?)
    };
    Ok(publish(flags, shared))
}

/// Makes an event of another process's handle.
///
/// # Errors
/// Those of [`SharedEvent::open`].
pub fn open(handle: &shared::EventHandle) -> Result<usize> {
    Ok(publish(
        EVENT_DISABLE_TIMING | EVENT_INTERPROCESS,
        Some(SharedEvent::open(handle)?),
    ))
}

fn publish(flags: u32, shared: Option<SharedEvent>) -> usize {
    let event = Arc::new(CudaEvent {
        flags,
        shared,
        mark: Mutex::new(Mark::None),
    });
    let handle = Arc::as_ptr(&event) as usize;
    HANDLES.write().insert(handle, event);
    handle
}

/// Ends an event; what waits for it still does.
pub fn destroy(handle: usize) -> Result {
    HANDLES
        .write()
        .remove(&handle)
        .map(drop)
        .ok_or(Error::INVALID_HANDLE)
}

/// The event that a handle names.
pub fn find(handle: usize) -> Result<Arc<CudaEvent>> {
    HANDLES.read().get(&handle).cloned().ok_or(Error::INVALID_HANDLE)
}

impl CudaEvent {
    /// Marks the stream's present end.
    pub fn record(&self, streams: &Streams, stream: &Arc<DeviceStream>) {
        let moment = Arc::new(AtomicU64::new(0));
        let stamp = moment.clone();
        let fence = match self.shared.as_ref().map(SharedEvent::record) {
            // Others see that it has passed, so the clock must have come to it.
            Some(passed) => stream.submit_visible(streams.fences(stream), move |turn| {
                stamp.store(turn.end, Ordering::Relaxed);
                passed();
            }),
            None => streams.submit(stream, move |turn| stamp.store(turn.end, Ordering::Relaxed)),
        };
        self.mark(fence, moment);
    }

    /// A handle for other processes.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for an event that was not made for them.
    pub fn ipc(&self) -> Result<shared::EventHandle> {
        self.shared.as_ref().ok_or(Error::INVALID_HANDLE)?.handle()
    }

    /// The last record, if it is another process's.
    pub fn foreign(&self) -> Option<ForeignRecord> {
        self.shared.as_ref()?.foreign()
    }

    /// Marks a position in a stream, whose moment is stored when it is passed.
    pub fn mark(&self, fence: Fence, moment: Arc<AtomicU64>) {
        *self.mark.lock() = Mark::Stream(fence, moment);
    }

    /// Marks a position in a capture.
    pub fn capture(&self, part: StreamCapture) {
        *self.mark.lock() = Mark::Captured(part);
    }

    /// The position in a capture at which it was last recorded.
    pub fn captured(&self) -> Option<StreamCapture> {
        match &*self.mark.lock() {
            Mark::Captured(part) => Some(part.clone()),
            _ => None,
        }
    }

    /// Whether it was ever recorded.
    pub fn was_recorded(&self) -> bool {
        !matches!(*self.mark.lock(), Mark::None)
    }

    /// Where it was last recorded; `None` if it never was, which counts as passed.
    ///
    /// # Errors
    /// `CAPTURED_EVENT`; a capture that lasts is invalid.
    pub fn fence(&self) -> Result<Option<Fence>> {
        match &*self.mark.lock() {
            Mark::None => Ok(None),
            Mark::Stream(fence, _) => Ok(Some(fence.clone())),
            Mark::Captured(part) => {
                part.capture.invalidate();
                Err(Error::CAPTURED_EVENT)
            }
        }
    }

    /// Nanoseconds of device time from `start` to this event.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if one keeps no time or was never recorded; `NOT_READY` if one is not passed.
    pub fn since(&self, start: &CudaEvent) -> Result<i64> {
        Ok(self.moment()? as i64 - start.moment()? as i64)
    }

    fn moment(&self) -> Result<u64> {
        if self.flags & EVENT_DISABLE_TIMING != 0 {
            return Err(Error::INVALID_HANDLE);
        }
        let (fence, moment) = match &*self.mark.lock() {
            Mark::None => return Err(Error::INVALID_HANDLE),
            Mark::Stream(fence, moment) => (fence.clone(), moment.clone()),
            Mark::Captured(_) => return Err(Error::CAPTURED_EVENT),
        };
        if fence.passed() {
            Ok(moment.load(Ordering::Relaxed))
        } else {
            Err(Error::NOT_READY)
        }
    }
}
