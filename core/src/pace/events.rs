//! The driver's events, for [`super::window`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mgb_abi::error::Code;
use parking_lot::Mutex;

use super::window::Events;
use crate::driver::{Driver, Event};

/// Events that a thread keeps for later use.
const MAX_FREE: usize = 16;

/// Those of threads that have ended, by GPU.
static LEFT: Mutex<BTreeMap<u32, Vec<Event>>> = Mutex::new(BTreeMap::new());

/// How often contexts have ended. The driver reads through the handle of an event whose context is gone.
static ENDS: AtomicU64 = AtomicU64::new(0);

/// Contexts of this process are about to end: no event that was made so far is used any more.
pub(super) fn contexts_end() {
    ENDS.fetch_add(1, Ordering::SeqCst);
    LEFT.lock().clear();
}

/// Events of one GPU.
pub(super) struct DriverEvents {
    driver: &'static Driver,
    gpu: u32,
    free: Vec<Event>,
    ends: u64,
}

impl DriverEvents {
    pub(super) fn new(driver: &'static Driver, gpu: u32) -> DriverEvents {
        DriverEvents {
            driver,
            gpu,
            ends: ENDS.load(Ordering::SeqCst),
            free: LEFT.lock().remove(&gpu).unwrap_or_default(),
        }
    }

    /// Whether their contexts are there still.
    pub(super) fn are_there(&self) -> bool {
        self.ends == ENDS.load(Ordering::Relaxed)
    }
}

impl Drop for DriverEvents {
    fn drop(&mut self) {
        // The driver may be gone as a thread ends.
        let mut left = LEFT.lock();
        if self.are_there() {
            left.entry(self.gpu).or_default().append(&mut self.free);
        }
    }
}

impl Events for DriverEvents {
    type Event = Event;

    fn record(&mut self, stream: usize) -> Option<Event> {
        // Another thread may begin a capture at this moment, which such calls would end.
        let _relaxed = self.driver.relax();
        let event = self.free.pop().or_else(|| self.driver.timed_event().ok())?;
        if self.driver.record_again(event, stream).is_success() {
            return Some(event);
        }
        // It is of another context, perhaps.
        self.driver.end_event(event);
        None
    }

    fn has_passed(&mut self, event: Event) -> bool {
        let _relaxed = self.driver.relax();
        self.driver.query_event(event) != Code::NOT_READY
    }

    fn between(&mut self, first: Event, second: Event) -> Option<Duration> {
        self.driver.elapsed(first, second)
    }

    fn drop(&mut self, event: Event) {
        if !self.are_there() {
            return;
        }
        if self.free.len() < MAX_FREE {
            self.free.push(event);
        } else {
            self.driver.end_event(event);
        }
    }
}
