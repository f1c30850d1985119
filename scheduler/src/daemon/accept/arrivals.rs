//! Guests that wait until it is known what they run, and what holds for their user.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::broker::ProgramId;
use crate::client::ClientId;
use crate::daemon::accept::greet::Guest;

/// Guests that wait for what is looked up, by the number they have as clients.
#[derive(Default)]
pub(crate) struct Arrivals(BTreeMap<ClientId, WaitingGuest>);

/// A guest that has said hello.
pub(crate) struct WaitingGuest {
    pub(crate) guest: Guest,
    /// What it runs; `None` until that is known.
    pub(crate) program: Option<Option<ProgramId>>,
    pub(crate) until: Duration,
}

impl Arrivals {
    /// A guest has said hello.
    pub(crate) fn insert(&mut self, id: ClientId, waiting: WaitingGuest) {
        self.0.insert(id, waiting);
    }

    /// It is known what a guest runs. What is known of one that does not wait is given back.
    pub(crate) fn runs(&mut self, id: ClientId, program: Option<ProgramId>) -> Option<ProgramId> {
        match self.0.get_mut(&id) {
            Some(waiting) => {
                waiting.program = Some(program);
                None
            }
            None => program,
        }
    }

    /// Takes those who have waited for long enough.
    pub(crate) fn take(&mut self, is_done: impl Fn(&WaitingGuest) -> bool) -> Vec<(ClientId, WaitingGuest)> {
        let done = self.0.iter().filter(|(_, waiting)| is_done(waiting));
        let done: Vec<ClientId> = done.map(|(id, _)| *id).collect();
        done.into_iter()
            .filter_map(|id| self.0.remove_entry(&id))
            .collect()
    }

    /// How long until the first of them has waited long enough.
    pub(crate) fn due_in(&self, now: Duration) -> Option<Duration> {
        let first = self.0.values().map(|waiting| waiting.until).min()?;
        Some(first.saturating_sub(now))
    }
}
