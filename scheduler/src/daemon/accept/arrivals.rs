//! Guests that wait until it is known what they run, and what holds for their user.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::broker::Program;
use crate::client::ClientId;
use crate::daemon::accept::greet::Guest;

/// Guests that wait for what is looked up, by the number they have as clients.
#[derive(Default)]
pub(crate) struct Arrivals(pub(crate) BTreeMap<ClientId, Waiting>);

/// A guest that has said hello.
pub(crate) struct Waiting {
    pub(crate) guest: Guest,
    /// What it runs; `None` until that is known.
    pub(crate) program: Option<Option<Program>>,
    pub(crate) until: Duration,
}

impl Arrivals {
    /// How long until the first of them has waited long enough.
    pub(crate) fn due_in(&self, now: Duration) -> Option<Duration> {
        let first = self.0.values().map(|waiting| waiting.until).min()?;
        Some(first.saturating_sub(now))
    }
}
