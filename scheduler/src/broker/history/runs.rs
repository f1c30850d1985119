//! How long programs took that `mgb run` started, from their start to their end, less the time for which they
//! waited for room: by what was called and with which arguments, as `mgb run` numbers it, and by user.
//!
//! A program may have many tasks, one after the other, and processes that never come to a GPU. What a
//! deadline is for is all of it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;

use super::record::RememberedRun;
use crate::broker::clients::JobOfUser;

/// Most programs with their arguments that are remembered.
const MAX_KNOWN: NonZeroUsize = NonZeroUsize::new(2048).unwrap();
/// Most that run at once and are watched; of more nothing is learned.
const MAX_RUNNING: usize = 4096;
/// What a file says of longer times is no time that a program can have taken.
const MAX_LASTED: Duration = Duration::from_secs(1 << 40);

/// A user's program with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::broker) struct RunKind {
    pub(in crate::broker) uid: u32,
    pub(in crate::broker) number: u64,
}

/// A program that runs.
#[derive(Clone, Copy, Debug)]
struct Run {
    kind: RunKind,
    /// The process that `mgb run` became.
    pid: u32,
    started: Duration,
    /// How long any of its processes has waited for room.
    waited: Duration,
    /// Up to when that is counted: its processes may wait at the same time.
    counted: Duration,
}

impl Run {
    fn lasted(&self, now: Duration) -> Duration {
        now.saturating_sub(self.started).saturating_sub(self.waited)
    }
}

/// The programs that run, by job, and how long those took that have ended.
#[derive(Debug)]
pub(super) struct Runs {
    known: LruCache<RunKind, Duration>,
    running: BTreeMap<JobOfUser, Run>,
    has_learned: bool,
}

impl Default for Runs {
    fn default() -> Runs {
        Runs {
            known: LruCache::new(MAX_KNOWN),
            running: BTreeMap::new(),
            has_learned: false,
        }
    }
}

impl Runs {
    /// How long the program took before; `None`: it has not ended yet.
    pub(super) fn lasted(&self, kind: &RunKind) -> Option<Duration> {
        self.known.peek(kind).copied()
    }

    /// `mgb run` is about to become this program, whose processes are this job.
    pub(super) fn starts(&mut self, job: JobOfUser, kind: RunKind, pid: u32, now: Duration) {
        // A process is one program at a time.
        self.running.retain(|_, run| run.pid != pid);
        if self.running.len() >= MAX_RUNNING {
            return;
        }
        let run = Run {
            kind,
            pid,
            started: now,
            waited: Duration::ZERO,
            counted: now,
        };
        self.running.insert(job, run);
    }

    /// A process of the job has waited for so long, until now.
    pub(super) fn waited(&mut self, job: JobOfUser, waited: Duration, now: Duration) {
        if let Some(run) = self.running.get_mut(&job) {
            let from = now.saturating_sub(waited).max(run.counted);
            run.waited += now.saturating_sub(from);
            run.counted = now.max(run.counted);
        }
    }

    /// How much longer the job's program takes; `None`: it has no such job, or nothing is known of it.
    pub(super) fn remains(&self, job: JobOfUser, now: Duration) -> Option<Duration> {
        let run = self.running.get(&job)?;
        Some(self.lasted(&run.kind)?.saturating_sub(run.lasted(now)))
    }

    /// No process of this number is left.
    pub(super) fn ended(&mut self, pid: u32, now: Duration) {
        let over: Vec<Run> = self
            .running
            .values()
            .filter(|run| run.pid == pid)
            .copied()
            .collect();
        self.running.retain(|_, run| run.pid != pid);
        for run in over {
            let lasted = run.lasted(now);
            let before = self.known.get(&run.kind);
            let lasted = before.map_or(lasted, |before| (*before + lasted) / 2);
            self.known.put(run.kind, lasted);
            self.has_learned = true;
        }
    }

    /// Begins with what was remembered before, those used last coming last.
    pub(super) fn recall(&mut self, runs: &[RememberedRun]) {
        for run in runs {
            let kind = RunKind {
                uid: run.uid,
                number: run.number,
            };
            self.known.put(kind, run.lasted.min(MAX_LASTED));
        }
    }

    /// Whether something was learned since [`Runs::remembered`] was last asked.
    pub(super) fn has_learned(&self) -> bool {
        self.has_learned
    }

    /// What is remembered, those used last coming last.
    pub(super) fn remembered(&mut self) -> Vec<RememberedRun> {
        self.has_learned = false;
        let one = |(kind, lasted): (&RunKind, &Duration)| RememberedRun {
            uid: kind.uid,
            number: kind.number,
            lasted: *lasted,
        };
        self.known.iter().rev().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Duration = Duration::from_secs;
    const KIND: RunKind = RunKind { uid: 7, number: 1 };

    #[test]
    fn what_waits_takes_no_longer() {
        let mut runs = Runs::default();
        runs.starts((7, 1), KIND, 100, AT(10));
        // Two of its processes wait at the same time, one for longer.
        runs.waited((7, 1), AT(5), AT(20));
        runs.waited((7, 1), AT(8), AT(22));
        runs.waited((8, 1), AT(9), AT(22));
        assert_eq!((runs.lasted(&KIND), runs.remains((7, 1), AT(25))), (None, None));
        runs.ended(99, AT(30));
        runs.ended(100, AT(30));
        assert_eq!(runs.lasted(&KIND), Some(AT(13)));
        assert_eq!(runs.lasted(&RunKind { uid: 8, ..KIND }), None);
        runs.starts((7, 2), KIND, 101, AT(40));
        assert_eq!(runs.remains((7, 2), AT(50)), Some(AT(3)));
        runs.waited((7, 2), AT(6), AT(50));
        assert_eq!(runs.remains((7, 2), AT(50)), Some(AT(9)));
        assert_eq!(runs.remains((7, 2), AT(99)), Some(AT(0)));
        let mut next = Runs::default();
        next.recall(&runs.remembered());
        assert_eq!(next.lasted(&KIND), Some(AT(13)));
    }

    #[test]
    fn what_is_watched_and_remembered_is_bounded() {
        let mut runs = Runs::default();
        for number in 0..5000 {
            runs.starts((7, number), RunKind { uid: 7, number }, number as u32, AT(0));
        }
        assert_eq!(runs.running.len(), MAX_RUNNING);
        // No process has more than one.
        for number in 0..10 {
            runs.starts((7, number), RunKind { uid: 7, number }, 4000, AT(0));
        }
        assert_eq!(runs.running.len(), MAX_RUNNING - 10);
        (0..5000).for_each(|pid| runs.ended(pid, AT(1)));
        assert!(runs.running.is_empty());
        assert_eq!(runs.known.len(), MAX_KNOWN.get());
    }
}
