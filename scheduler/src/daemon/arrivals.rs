//! Guests that wait until it is known what they run, and what holds for their user.

use std::collections::BTreeMap;
use std::time::Duration;

use super::greet::Guest;
use crate::broker::Program;
use crate::client::ClientId;

/// Guests that wait for what is looked up, by the number they have as clients.
#[derive(Default)]
pub(super) struct Arrivals(pub(super) BTreeMap<ClientId, Waiting>);

/// A guest that has said hello.
pub(super) struct Waiting {
    pub(super) guest: Guest,
    /// What it runs; `None` until that is known.
    pub(super) program: Option<Option<Program>>,
    pub(super) until: Duration,
}

impl Arrivals {
    /// How long until the first of them has waited long enough.
    pub(super) fn due_in(&self, now: Duration) -> Option<Duration> {
        let first = self.0.values().map(|waiting| waiting.until).min()?;
        Some(first.saturating_sub(now))
    }
}
