//! GPUs where room gathers for tasks, and where it was given up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;

/// The longest pause after a GPU was given up.
pub(in crate::broker) const MAX_PAUSE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The GPUs that are kept, and those that were given up.
#[derive(Debug, Default)]
pub(in crate::broker) struct Gathers {
    /// The GPUs on which room gathers now, by index.
    on: BTreeMap<usize, Gather>,
    /// The GPUs that were given up, by user and GPU.
    given_up: BTreeMap<(u32, usize), GivenUp>,
    /// By GPU: where tasks wait to grow.
    growths: BTreeMap<usize, Growths>,
}

/// Room that gathers on a GPU for a task.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Gather {
    /// The task for which room gathers.
    pub(in crate::broker) key: TaskKey,
    /// The user of the task.
    pub(in crate::broker) uid: u32,
    /// How much of the room is there, and until when more has to be.
    pub(in crate::broker) progress: Progress,
}

/// What is there, and until when more has to be.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Progress {
    /// The most that was there: bytes, or for a task that wants to be alone, less processes than all.
    pub(in crate::broker) most: u64,
    /// When the GPU is given up if there is not more.
    pub(in crate::broker) until: Duration,
}

/// A GPU on which nothing left for a user's requests.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    not_before: Duration,
    pause: Duration,
}

/// Tasks that wait to grow on a GPU.
#[derive(Clone, Copy, Debug)]
struct Growths {
    progress: Progress,
    /// Until when newcomers may begin there all the same, and the length of the next such time.
    open_until: Duration,
    pause: Duration,
    /// Since when none waits; within the patience it is the same wait.
    none_since: Option<Duration>,
}

impl Gathers {
    /// The GPUs on which room gathers, and for which tasks.
    pub(in crate::broker) fn all(&self) -> Vec<(usize, Gather)> {
        self.on.iter().map(|(gpu, gather)| (*gpu, *gather)).collect()
    }

    /// How many GPUs there are on which room gathers.
    pub(in crate::broker) fn count(&self) -> usize {
        self.on.len()
    }

    /// The GPUs on which room gathers.
    pub(in crate::broker) fn gpus(&self) -> GpuSet {
        self.on.keys().copied().collect()
    }

    /// The users for whom room gathers.
    pub(in crate::broker) fn users(&self) -> BTreeSet<u32> {
        self.on.values().map(|gather| gather.uid).collect()
    }

    /// Room gathers on the GPU from now on, or has come nearer.
    pub(in crate::broker) fn begin(&mut self, gpu: usize, gather: Gather) {
        self.on.insert(gpu, gather);
    }

    /// No room gathers on the GPU any more.
    pub(in crate::broker) fn end(&mut self, gpu: usize) {
        self.on.remove(&gpu);
    }

    /// Whether newcomers may begin on a GPU although others wait to grow there.
    pub(in crate::broker) fn is_open(&self, gpu: usize, now: Duration) -> bool {
        self.growths
            .get(&gpu)
            .is_some_and(|growths| now < growths.open_until)
    }

    /// Whether a user's requests have given up these GPUs, all of them.
    pub(in crate::broker) fn are_given_up(&self, uid: u32, gpus: GpuSet, now: Duration) -> bool {
        (gpus & !self.paused(uid, now)).is_empty()
    }

    /// GPUs on which nothing gathers for a user.
    pub(in crate::broker) fn paused(&self, uid: u32, now: Duration) -> GpuSet {
        let own = self.given_up.range((uid, 0)..=(uid, usize::MAX));
        let own = own.filter(|(_, given_up)| now < given_up.not_before);
        own.map(|((_, gpu), _)| *gpu).collect()
    }

    /// For how long nothing gathered for the user on the GPU after it was given up last; `None`: it never was.
    pub(in crate::broker) fn last_pause(&self, uid: u32, gpu: usize) -> Option<Duration> {
        self.given_up.get(&(uid, gpu)).map(|given_up| given_up.pause)
    }

    /// Nothing leaves the GPU for the user's requests: for a while nothing gathers for them there.
    pub(in crate::broker) fn give_up(&mut self, uid: u32, gpu: usize, first: Duration, now: Duration) {
        let before = self.given_up.get(&(uid, gpu));
        let pause = before.map_or(first, |before| {
            (before.pause * 2).min(MAX_PAUSE_TIMEOUT.max(first))
        });
        let not_before = now + pause;
        self.given_up.insert((uid, gpu), GivenUp { not_before, pause });
    }

    /// The user's request was served on the GPU.
    pub(in crate::broker) fn forgive(&mut self, uid: u32, gpu: usize) {
        self.given_up.remove(&(uid, gpu));
    }

    /// Forgets what was given up long ago.
    pub(in crate::broker) fn forget_old(&mut self, now: Duration) {
        let old = |given_up: &GivenUp| now > given_up.not_before + MAX_PAUSE_TIMEOUT;
        self.given_up.retain(|_, given_up| !old(given_up));
    }

    /// Tasks wait to grow on these GPUs: where none has for the patience, the next is another wait.
    pub(in crate::broker) fn forget_growths(&mut self, growing: GpuSet, patience: Duration, now: Duration) {
        self.growths.retain(|gpu, growths| {
            let is_there = growing.contains(gpu);
            growths.none_since = (!is_there).then(|| growths.none_since.unwrap_or(now));
            growths
                .none_since
                .is_none_or(|since| now.saturating_sub(since) < patience)
        });
    }

    /// Tasks wait to grow on the GPU, where so much is there. Opens it to newcomers where less than `least` has left
    /// for `timeout`, and closes it again. On a stalled GPU that time does not count.
    pub(in crate::broker) fn watch_growths(
        &mut self,
        gpu: usize,
        there: u64,
        least: u64,
        is_stalled: bool,
        timeout: Duration,
        now: Duration,
    ) {
        let fresh = Progress {
            most: there,
            until: now + timeout,
        };
        let growths = self.growths.entry(gpu).or_insert(Growths {
            progress: fresh,
            open_until: Duration::ZERO,
            pause: timeout,
            none_since: None,
        });
        if now < growths.open_until {
            growths.progress = fresh;
        } else if there >= growths.progress.most.saturating_add(least) || is_stalled {
            growths.progress = Progress {
                most: there.max(growths.progress.most),
                ..fresh
            };
        } else if now >= growths.progress.until {
            tracing::info!(
                gpu,
                "nothing leaves the GPU for those who wait to grow there: others may begin"
            );
            growths.open_until = now + growths.pause;
            growths.pause = (growths.pause * 2).min(MAX_PAUSE_TIMEOUT.max(timeout));
        }
    }
}
