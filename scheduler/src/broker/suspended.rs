//! Who is suspended ([`super::control`]).

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::slurm_whole;

use super::jobs::JobOfUser;

/// Who is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whom {
    /// The process of this id.
    Process(u32),
    /// All processes of this job of a user, also those that come later. A job of Slurm has a number for all
    /// of its steps together ([`slurm_whole`]).
    Job(JobOfUser),
}

impl Whom {
    /// Whether a process of this id and job is meant.
    pub(super) fn is(self, pid: u32, of: JobOfUser) -> bool {
        match self {
            Whom::Process(one) => one == pid,
            Whom::Job(job) => job == of || whole(of) == Some(job),
        }
    }

    /// Processes without a job have the number 0, and are no job together.
    pub(super) fn or_none(self) -> Option<Whom> {
        (!matches!(self, Whom::Job((_, 0)))).then_some(self)
    }
}

/// All steps of the Slurm job that a job is a step of, together.
pub(super) fn whole((uid, job): JobOfUser) -> Option<JobOfUser> {
    slurm_whole(job).map(|whole| (uid, whole))
}

/// Who is suspended, and since when.
#[derive(Debug, Default)]
pub(super) struct Suspended(pub(super) BTreeMap<Whom, Duration>);

impl Suspended {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Since when a process of this id and job is; `None`: it is not.
    pub(super) fn since(&self, pid: u32, job: JobOfUser) -> Option<Duration> {
        let of = |whom| self.0.get(&whom).copied();
        let slurm = whole(job).and_then(|job| of(Whom::Job(job)));
        let all = [of(Whom::Process(pid)), of(Whom::Job(job)), slurm];
        all.into_iter().flatten().min()
    }
}
