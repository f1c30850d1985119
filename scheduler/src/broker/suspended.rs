//! Who is suspended ([`super::control`]).

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::slurm_whole;

/// Who is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whom {
    /// The process of this id.
    Process(u32),
    /// All processes of this job, also those that come later. A job of Slurm has a number for all of its
    /// steps together ([`slurm_whole`]).
    Job(u64),
}

impl Whom {
    /// Whether a process of this id and job is meant.
    pub(super) fn is(self, pid: u32, of: u64) -> bool {
        match self {
            Whom::Process(one) => one == pid,
            Whom::Job(job) => job == of || slurm_whole(of) == Some(job),
        }
    }

    /// Processes without a job have the number 0, and are no job together.
    pub(super) fn or_none(self) -> Option<Whom> {
        (self != Whom::Job(0)).then_some(self)
    }
}

/// Who is suspended, and since when.
#[derive(Debug, Default)]
pub(super) struct Suspended(pub(super) BTreeMap<Whom, Duration>);

impl Suspended {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Since when a process of this id and job is; `None`: it is not.
    pub(super) fn since(&self, pid: u32, job: u64) -> Option<Duration> {
        let of = |whom| self.0.get(&whom).copied();
        let slurm = slurm_whole(job).and_then(|job| of(Whom::Job(job)));
        let all = [of(Whom::Process(pid)), of(Whom::Job(job)), slurm];
        all.into_iter().flatten().min()
    }
}
