//! What jobs of Slurm have taken of the GPUs: for its accounting, which asks once a job is over. Bounded, and
//! nothing is decided by it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::broker::clients::UsersJob;

/// Most jobs that are remembered; of those that have ended, the latest ones.
pub(in crate::broker) const MAX_JOBS: usize = 256;

/// What a job has taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JobUsage {
    pub(super) tasks: u64,
    pub(super) peak_bytes: u64,
    pub(super) gpu_peak_bytes: u64,
    /// The most bytes of one GPU that it wanted and no GPU here has.
    pub(super) refused_bytes: u64,
    pub(super) waited: Duration,
    pub(super) had_tasks_for: Duration,
    /// When it was granted something last, or gave it back.
    pub(super) touched: Duration,
}

/// What all jobs have taken.
#[derive(Debug, Default)]
pub(super) struct JobUsages(BTreeMap<UsersJob, JobUsage>);

impl JobUsages {
    /// What a job has taken so far, which takes or gives back something now. Where there are too many, one
    /// that has ended is forgotten for it: the oldest of the user who has most.
    pub(super) fn touch(
        &mut self,
        whose: UsersJob,
        now: Duration,
        runs: impl Fn(UsersJob) -> bool,
    ) -> &mut JobUsage {
        if self.0.len() >= MAX_JOBS && !self.0.contains_key(&whose) {
            let ended = || self.0.iter().filter(|(whose, _)| !runs(**whose));
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            ended().for_each(|(whose, _)| *counts.entry(whose.uid).or_default() += 1);
            let most = counts.into_iter().max_by_key(|(_, count)| *count);
            let of_user = ended().filter(|(whose, _)| most.is_some_and(|(uid, _)| uid == whose.uid));
            let oldest = of_user.min_by_key(|(_, usage)| usage.touched);
            if let Some((&oldest, _)) = oldest {
                self.0.remove(&oldest);
            }
        }
        let usage = self.0.entry(whose).or_default();
        usage.touched = now;
        usage
    }

    /// What a job has taken, if it is remembered.
    pub(super) fn get_mut(&mut self, whose: UsersJob) -> Option<&mut JobUsage> {
        self.0.get_mut(&whose)
    }

    /// The usage of all jobs that are remembered.
    pub(super) fn iter(&self) -> impl Iterator<Item = (UsersJob, &JobUsage)> {
        self.0.iter().map(|(whose, usage)| (*whose, usage))
    }
}
