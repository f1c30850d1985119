//! How many connections are taken: a program that connects without end must not keep the loop from those who
//! are clients already.

use std::time::Duration;

use super::bucket::Bucket;

/// Connections that are taken at once, after a while with fewer: a batch of programs that start together.
const BURST: u32 = 256;
/// From one to the next when there are more. To take one costs 30 to 100 us, and what it asks for and leaves
/// several times that, which the clients wait for.
const EVERY: Duration = Duration::from_millis(4);

/// What is left of them.
#[derive(Debug)]
pub(super) struct Doors {
    places: Bucket,
    /// Nobody is let in until then.
    closed_until: Option<Duration>,
}

impl Doors {
    pub(super) fn new(now: Duration) -> Doors {
        Doors {
            places: Bucket::new(BURST, EVERY, now),
            closed_until: None,
        }
    }

    /// Lets nobody in for a moment.
    pub(super) fn close(&mut self, now: Duration) {
        self.closed_until = Some(now + EVERY);
    }

    /// Whether they were closed and are open from now on.
    pub(super) fn open(&mut self, now: Duration) -> bool {
        self.closed_until.take_if(|until| now >= *until).is_some()
    }

    /// How long they are still closed; `None`: they are open.
    pub(super) fn opens_in(&self, now: Duration) -> Option<Duration> {
        Some(self.closed_until?.saturating_sub(now))
    }

    /// Whether one may come in.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        self.places.take(now)
    }
}
