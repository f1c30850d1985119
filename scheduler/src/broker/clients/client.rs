//! What is known of one client.

use crate::broker::program::ProgramId;

/// A job: its user, and the number that its processes say.
pub type JobOfUser = (u32, u64);

/// What is known of a client: its process, user, program and job.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct ClientState {
    pub(super) pid: u32,
    pub(super) uid: u32,
    pub(super) program: Option<ProgramId>,
    /// The number of the job that the process belongs to; 0: none.
    pub(super) job: u64,
    /// The client begins no task: it shows the node to a person, or brings a person's orders.
    pub(super) observes: bool,
    /// The client's orders may be about the programs of all users.
    pub(super) administers: bool,
}

impl ClientState {
    /// The number of the client's process.
    pub(in crate::broker) fn pid(&self) -> u32 {
        self.pid
    }

    /// The user of the client's process.
    pub(in crate::broker) fn uid(&self) -> u32 {
        self.uid
    }

    /// The number of the job that the process belongs to; 0: none.
    pub(in crate::broker) fn job(&self) -> u64 {
        self.job
    }

    /// That number as `MGB_JOB` says it, if there is one.
    pub(in crate::broker) fn job_text(&self) -> Option<String> {
        (self.job != 0).then(|| format!("{:016x}", self.job))
    }

    /// The job that the process belongs to, with its user.
    pub(in crate::broker) fn job_of_user(&self) -> JobOfUser {
        (self.uid, self.job)
    }

    /// Whether the client begins no task.
    pub(in crate::broker) fn observes(&self) -> bool {
        self.observes
    }
}
