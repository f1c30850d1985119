//! What is known of GPUs where room gathers for tasks, and where it was given up ([`super::gather`]).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;

/// The longest pause after a GPU was given up.
pub(super) const MAX_PAUSE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The GPUs that are kept, and those that were given up.
#[derive(Debug, Default)]
pub(super) struct Gathers {
    /// The GPUs on which room gathers now, by index.
    pub(super) on: BTreeMap<usize, Gather>,
    /// By user and GPU.
    pub(super) given_up: BTreeMap<(u32, usize), GivenUp>,
    /// By GPU: where tasks wait to grow.
    pub(super) growths: BTreeMap<usize, Growths>,
}

/// Room that gathers on a GPU for a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gather {
    pub(super) key: TaskKey,
    pub(super) uid: u32,
    pub(super) progress: Progress,
}

/// What is there, and until when more has to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// The most that was there: bytes, or for a task that wants to be alone, less processes than all.
    pub(super) most: u64,
    pub(super) until: Duration,
}

/// A GPU on which nothing left for a user's requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenUp {
    pub(super) not_before: Duration,
    pub(super) pause: Duration,
}

/// Tasks that wait to grow on a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growths {
    pub(super) progress: Progress,
    /// Until when newcomers may begin there all the same, and the length of the next such time.
    pub(super) open_until: Duration,
    pub(super) pause: Duration,
    /// Since when none waits; within the patience it is the same wait.
    pub(super) none_since: Option<Duration>,
}

impl Gathers {
    /// Whether newcomers may begin on a GPU although others wait to grow there.
    pub(super) fn is_open(&self, gpu: usize, now: Duration) -> bool {
        self.growths
            .get(&gpu)
            .is_some_and(|growths| now < growths.open_until)
    }

    /// Whether a user's requests have given up these GPUs, all of them.
    pub(super) fn are_given_up(&self, uid: u32, gpus: GpuSet, now: Duration) -> bool {
        (gpus & !self.paused(uid, now)).is_empty()
    }

    /// GPUs on which nothing gathers for a user, .
    pub(super) fn paused(&self, uid: u32, now: Duration) -> GpuSet {
        let own = self.given_up.range((uid, 0)..=(uid, usize::MAX));
        let own = own.filter(|(_, given_up)| now < given_up.not_before);
        own.map(|((_, gpu), _)| *gpu).collect()
    }

    pub(super) fn give_up(&mut self, uid: u32, gpu: usize, first: Duration, now: Duration) {
        let before = self.given_up.get(&(uid, gpu));
        let pause = before.map_or(first, |before| {
            (before.pause * 2).min(MAX_PAUSE_TIMEOUT.max(first))
        });
        let not_before = now + pause;
        self.given_up.insert((uid, gpu), GivenUp { not_before, pause });
    }
}
