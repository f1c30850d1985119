//! The latency programs there are, and what batch programs were told because of them.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use crate::client::ClientId;
use crate::pace::{LatencyProgram, Paced, Pacing, RENEWAL_INTERVAL};

/// What batch programs are told, and by whom it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    pacing: Pacing,
    /// Clients that say that they are latency programs.
    latency: BTreeSet<ClientId>,
    told: Paced,
    /// When it was told anew.
    renewed: Duration,
    /// When to look again.
    due: Option<Duration>,
    /// For tests: how often holds change at random, what they are, and since when.
    shakes: Option<Duration>,
    shaken: (u64, Duration),
}

impl Paces {
    /// None yet. `shakes`: for tests, batch programs are held on GPUs that change at random so often.
    pub(crate) fn new(shakes: Option<Duration>) -> Paces {
        Paces {
            shakes,
            ..Paces::default()
        }
    }

    /// What is told beside what latency programs ask for, and in how long that changes.
    fn shake(&mut self, every: Duration, now: Duration) -> (Paced, Duration) {
        if now.saturating_sub(self.shaken.1) >= every {
            self.shaken = (RandomState::new().build_hasher().finish(), now);
        }
        let paced = Paced {
            holds: self.shaken.0,
            bounds: u64::MAX,
        };
        (paced, every.min(RENEWAL_INTERVAL))
    }

    /// A client has come that says that it is a latency program.
    pub(crate) fn arrive(&mut self, client: ClientId) {
        self.latency.insert(client);
    }

    /// Whether there is a latency program.
    pub(crate) fn has_latency(&self) -> bool {
        !self.latency.is_empty()
    }

    /// Whether there is none, and nobody was told otherwise.
    pub(crate) fn are_none(&self) -> bool {
        self.latency.is_empty() && self.told == Paced::default() && self.shakes.is_none()
    }

    /// Those of the latency programs that are there still.
    pub(crate) fn latency(&mut self, is_there: impl Fn(ClientId) -> bool) -> impl Iterator<Item = ClientId> {
        self.latency.retain(|client| is_there(*client));
        self.latency.iter().copied()
    }

    /// What batch programs are to be told now, and whether they are to be told anew what stays as it was.
    pub(crate) fn step(&mut self, programs: &[LatencyProgram], now: Duration) -> (Paced, bool) {
        let (mut paced, mut next) = self.pacing.step(programs, now);
        if let Some(every) = self.shakes {
            let (shaken, due) = self.shake(every, now);
            (paced, next) = (shaken, Some(due));
        }
        self.due = next.map(|next| now + next);
        self.told = paced;
        let anew = now.saturating_sub(self.renewed) >= RENEWAL_INTERVAL;
        if anew {
            self.renewed = now;
        }
        (paced, anew)
    }

    /// How long until the next look; `None`: until something happens.
    pub(crate) fn due_in(&self, now: Duration) -> Option<Duration> {
        self.due.map(|due| due.saturating_sub(now))
    }
}
