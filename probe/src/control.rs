//! What a person asks of `mgbd`: that processes or GPUs become empty, and may be used again. `mgb suspend`
//! and its like are made of this.

use crate::client::Client;
use crate::task::Refusal;
use crate::wire::{OF_JOB, Op, Reply, WHOLE_JOB};

/// Which processes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// The one of this id.
    One(u32),
    /// All of the job that this one belongs to, and those that the job is yet to start.
    JobOf(u32),
    /// All of the job with this number, of one's own user; for root, and who runs `mgbd`, of any.
    Job(u64),
    /// All of the job with this number, of this user: for root, and who runs `mgbd`.
    JobOfUser(u32, u64),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It is so from now on.
    Now,
    /// It was so already.
    Before,
    /// `mgbd` knows no such process, job or GPU.
    Unknown,
}

/// Why an order was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// `mgbd` says why.
    #[error("{0}")]
    Refused(String),
    /// There was no answer.
    #[error(transparent)]
    Lost(#[from] Refusal),
}

impl Client {
    /// Has these processes suspended: their memory leaves all GPUs, as the node view shows
    /// ([`crate::view::NodeView::leaving`]), and they are granted nothing until [`Client::resume`]. Returns
    /// at once, and the view has it by then. For a client that looks ([`Client::observe`]), as all here.
    ///
    /// # Errors
    /// `mgbd` is gone, or refuses for a reason that it gives.
    pub fn suspend(&self, processes: Processes) -> Result<Changed, OrderError> {
        self.control_processes(Op::Suspend, processes)
    }

    /// Has these processes go on.
    ///
    /// # Errors
    /// As [`Client::suspend`].
    pub fn resume(&self, processes: Processes) -> Result<Changed, OrderError> {
        self.control_processes(Op::Resume, processes)
    }

    /// Has the GPU of this index drained: nobody is admitted to it any more, and who is there leaves when
    /// idle.
    ///
    /// # Errors
    /// As [`Client::suspend`].
    pub fn drain(&self, gpu: u32) -> Result<Changed, OrderError> {
        self.control(Op::Drain, 0, gpu.into(), 0)
    }

    /// Has the GPU used again.
    ///
    /// # Errors
    /// As [`Client::suspend`].
    pub fn end_drain(&self, gpu: u32) -> Result<Changed, OrderError> {
        self.control(Op::EndDrain, 0, gpu.into(), 0)
    }

    /// Has the tasks of a process that may go on elsewhere moved to the GPU of this index. Returns at once;
    /// the view shows where they are ([`crate::view::TaskState::Moving`] meanwhile).
    ///
    /// # Errors
    /// As [`Client::suspend`]; also where none of its tasks may move, or there is no room for one.
    pub fn move_to(&self, pid: u32, gpu: u32) -> Result<Changed, OrderError> {
        self.control(Op::Move, 0, pid.into(), gpu.into())
    }

    fn control_processes(&self, op: Op, processes: Processes) -> Result<Changed, OrderError> {
        match processes {
            Processes::One(pid) => self.control(op, 0, pid.into(), 0),
            Processes::JobOf(pid) => self.control(op, WHOLE_JOB, pid.into(), 0),
            Processes::Job(job) => self.control(op, OF_JOB, job, 0),
            Processes::JobOfUser(uid, job) => self.control(op, OF_JOB, job, u64::from(uid) + 1),
        }
    }

    fn control(&self, op: Op, flags: u32, subject: u64, bytes: u64) -> Result<Changed, OrderError> {
        match self.order(op, flags, subject, bytes)? {
            Reply::Done => Ok(Changed::Now),
            Reply::Unchanged => Ok(Changed::Before),
            Reply::Unknown => Ok(Changed::Unknown),
            Reply::Bad(text) => Err(OrderError::Refused(text.to_text())),
            other => Err(Refusal::Protocol(format!("unexpected answer {other:?}")).into()),
        }
    }
}
