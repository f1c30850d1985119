//! The driver's events, for [`super::window`].

use std::time::Duration;

use super::window::Events;
use crate::driver::{Driver, Event};

/// Events that are kept for later use.
const MAX_FREE: usize = 16;

/// Events of one GPU.
pub(super) struct DriverEvents {
    driver: &'static Driver,
    free: Vec<Event>,
}

impl DriverEvents {
    pub(super) fn new(driver: &'static Driver) -> DriverEvents {
        DriverEvents {
            driver,
            free: Vec::new(),
        }
    }
}

impl Events for DriverEvents {
    type Event = Event;

    fn record(&mut self, stream: usize) -> Option<Event> {
        let event = self.free.pop().or_else(|| self.driver.timed_event().ok())?;
        if self.driver.record_again(event, stream).is_success() {
            return Some(event);
        }
        // It is of another context, perhaps.
        self.driver.end_event(event);
        None
    }

    fn has_passed(&mut self, event: Event) -> bool {
        use mgb_abi::error::Code;
        self.driver.query_event(event) != Code::NOT_READY
    }

    fn between(&mut self, first: Event, second: Event) -> Option<Duration> {
        self.driver.elapsed(first, second)
    }

    fn drop(&mut self, event: Event) {
        if self.free.len() < MAX_FREE {
            self.free.push(event);
        } else {
            self.driver.end_event(event);
        }
    }
}
