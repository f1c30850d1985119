//! What a person's order is about.

use mgb_probe::slurm_whole;

use super::client::{ClientState, JobOfUser};

/// A process or a job that a person's order is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::broker) enum Subject {
    /// The process of this id.
    Process(u32),
    /// All processes of this job of a user, also those that come later. A job of Slurm has a number for all
    /// of its steps together ([`slurm_whole`]).
    Job(JobOfUser),
}

impl Subject {
    /// All subjects that the client is part of.
    pub(in crate::broker) fn all_of(client: &ClientState) -> impl Iterator<Item = Subject> {
        let job = client.job_of_user();
        [Subject::Process(client.pid()), Subject::Job(job)]
            .into_iter()
            .chain(whole(job).map(Subject::Job))
    }

    /// Whether a client is part of it.
    pub(super) fn is(self, client: &ClientState) -> bool {
        let of = client.job_of_user();
        match self {
            Subject::Process(one) => one == client.pid(),
            Subject::Job(job) => job == of || whole(of) == Some(job),
        }
    }

    /// Processes without a job have the number 0, and are no job together.
    pub(super) fn or_none(self) -> Option<Subject> {
        (!matches!(self, Subject::Job((_, 0)))).then_some(self)
    }
}

/// All steps of the Slurm job that a job is a step of, together.
fn whole((uid, job): JobOfUser) -> Option<JobOfUser> {
    slurm_whole(job).map(|whole| (uid, whole))
}
