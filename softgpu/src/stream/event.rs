//! Events: marks in streams, with the device time at which they were passed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, RwLock};

use super::{Fence, handle};
use crate::error::{Error, Result};

/// `cudaEventDisableTiming`.
pub const DISABLE_TIMING: u32 = 2;

/// What `cudaEvent_t` points to.
pub struct Event {
    flags: u32,
    /// Where it was last recorded, and the moment, once passed.
    record: Mutex<Option<(Fence, Arc<AtomicU64>)>>,
}

static HANDLES: LazyLock<RwLock<HashMap<usize, Arc<Event>>>> = LazyLock::new(RwLock::default);

/// Makes an event and a handle for it.
pub fn create(flags: u32) -> usize {
    let event = Arc::new(Event {
        flags,
        record: Mutex::new(None),
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
pub fn find(handle: usize) -> Result<Arc<Event>> {
    HANDLES.read().get(&handle).cloned().ok_or(Error::INVALID_HANDLE)
}

impl Event {
    /// Marks the stream's present end.
    pub fn record(&self, stream: usize) -> Result {
        let (gpu, stream) = handle::resolve(stream)?;
        let moment = Arc::new(AtomicU64::new(0));
        let stamp = moment.clone();
        let fence = gpu
            .streams
            .submit(&stream, move |turn| stamp.store(turn.end, Ordering::Relaxed));
        *self.record.lock() = Some((fence, moment));
        Ok(())
    }

    /// Where it was last recorded; `None` if it never was, which counts as passed.
    pub fn fence(&self) -> Option<Fence> {
        self.record.lock().as_ref().map(|(fence, _)| fence.clone())
    }

    /// Nanoseconds of device time from `start` to this event.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if one keeps no time or was never recorded; `NOT_READY` if one is not passed.
    pub fn since(&self, start: &Event) -> Result<i64> {
        Ok(self.moment()? as i64 - start.moment()? as i64)
    }

    fn moment(&self) -> Result<u64> {
        if self.flags & DISABLE_TIMING != 0 {
            return Err(Error::INVALID_HANDLE);
        }
        let (fence, moment) = self.record.lock().clone().ok_or(Error::INVALID_HANDLE)?;
        if fence.passed() {
            Ok(moment.load(Ordering::Relaxed))
        } else {
            Err(Error::NOT_READY)
        }
    }
}
