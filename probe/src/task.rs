//! Tasks as the client knows them: identity, grants and refusals.

use std::time::Duration;

use crate::byte_size::Bytes;
use crate::failures::FailureCause;
use crate::limited::Limited;
use crate::log_markers::{LARGEST_GPU, MGBD_ENDED};
use crate::socket::socket_path;
use crate::wire::Reply;

/// Identifies a task of this process: chosen by the client, unique in the
/// process, never 0. It is also the handle that `mgb_task_begin` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub(crate) u64);

/// Marks handles of refused tasks, so that a handle carries its own refusal.
const REFUSED: u64 = 1 << 63;

impl TaskId {
    /// The handle in C.
    pub fn raw(self) -> u64 {
        self.0
    }

    /// The task behind a handle; `None` for 0, "no task".
    pub fn from_raw(raw: u64) -> Option<TaskId> {
        (raw != 0).then_some(TaskId(raw))
    }

    /// Whether this is the handle of a task that was refused.
    pub fn is_refused(self) -> bool {
        self.0 & REFUSED != 0
    }

    /// The same identity as a refused handle.
    pub(crate) fn refused(self) -> TaskId {
        TaskId(self.0 | REFUSED)
    }
}

/// The scheduler's answer: a GPU, and the room reserved on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The task it is for.
    pub task: TaskId,
    /// Index into [`crate::Hello::gpus`].
    pub gpu: u32,
    /// Bytes the task may map there.
    pub reserved_bytes: u64,
    /// How long the caller waited.
    pub waited: Duration,
}

/// What is expected of a program before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedRun {
    /// How long it waits for room.
    pub waits: Duration,
    /// How long it takes beside that; `None`: it is unknown.
    pub lasts: Option<Duration>,
}

/// How a process's first task began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    /// The GPUs in the order in which the process is to count them: positions in [`crate::Hello::gpus`].
    pub order: Vec<u32>,
    /// The task, on the first of them; `None`: another process of the job had begun before, and none was
    /// begun here.
    pub grant: Option<Grant>,
}

/// The answer to a request for more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grown {
    /// The task may now map this much in all.
    Granted {
        /// The whole reservation, old and new.
        reserved_bytes: u64,
        /// The task's GPU: the one where it was, but after [`crate::Client::grow_anywhere`].
        gpu: u32,
    },
    /// Everybody on that GPU waits for more, and this task is to make room:
    /// copy its memory to the host, free it on the GPU, call
    /// [`crate::Client::swapped`], then ask with `grow` for the whole again.
    SwapOut,
}

/// Why a request got no room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It can never fit on this node.
    #[error("needs {}, {LARGEST_GPU} {}", Bytes(*.wanted), Bytes(*.largest))]
    NeverFits {
        /// Bytes wanted, with the context.
        wanted: u64,
        /// Bytes that the largest GPU in question offers.
        largest: u64,
    },
    /// It alone goes beyond what its user, or a group of the user's, may have at once.
    #[error("needs {}; its user may have {} at once (`mgb quota`)", amount(*.what, *.wanted), amount(*.what, *.limit))]
    OverQuota {
        /// What is limited.
        what: Limited,
        /// How much it would be.
        wanted: u64,
        /// How much it may be.
        limit: u64,
    },
    /// No GPU that the task may use is under this `mgbd`.
    #[error("none of the GPUs that it may use is shared by mgbd; check CUDA_VISIBLE_DEVICES")]
    NoGpu,
    /// The program got a signal that asks it to end, and handles it, while it waited.
    #[error("the program got {0} while it waited for room")]
    Interrupted(&'static str),
    /// The caller did not need the room any more.
    #[error("it was not needed any more")]
    Withdrawn,
    /// Everybody waits for more, and nobody can be swapped out.
    #[error("every process on the GPU waits for more memory and none can be swapped out; run fewer at once")]
    Deadlock,
    /// `mgbd` is gone; what was granted stays usable.
    #[error(
        "{MGBD_ENDED}; see its log {}.log, start mgbd again and rerun the program",
        socket_path().display()
    )]
    Disconnected,
    /// The two sides do not understand each other.
    #[error("the channel to mgbd broke: {0}; use mgbd and the program's libmgb_rt.so of one version")]
    Protocol(String),
}

impl Refusal {
    /// The kind of failure that the refusal is; `None`: it says nothing of what the program wanted.
    pub fn failure(&self) -> Option<FailureCause> {
        match self {
            Refusal::NeverFits { .. } => Some(FailureCause::NeverFits),
            Refusal::OverQuota { .. } => Some(FailureCause::OverQuota),
            Refusal::Deadlock => Some(FailureCause::Deadlock),
            Refusal::NoGpu
            | Refusal::Interrupted(_)
            | Refusal::Withdrawn
            | Refusal::Disconnected
            | Refusal::Protocol(_) => None,
        }
    }

    /// Whether a request for less, or a later one, may be granted: the task is not refused for good.
    pub fn is_for_size(&self) -> bool {
        matches!(
            self,
            Refusal::NeverFits { .. } | Refusal::OverQuota { .. } | Refusal::Deadlock
        )
    }
}

/// What an answer that grants nothing says.
impl From<Reply> for Refusal {
    fn from(reply: Reply) -> Refusal {
        match reply {
            Reply::NeverFits { wanted, largest } => Refusal::NeverFits { wanted, largest },
            Reply::OverQuota { what, wanted, limit } => Refusal::OverQuota { what, wanted, limit },
            Reply::NoGpu => Refusal::NoGpu,
            Reply::Deadlock => Refusal::Deadlock,
            Reply::Bad(text) => Refusal::Protocol(text.to_text()),
            other => Refusal::Protocol(format!("unexpected answer {other:?}")),
        }
    }
}

/// So much of what is limited, in words.
fn amount(what: Limited, number: u64) -> String {
    match what {
        Limited::Bytes => Bytes(number).to_string(),
        Limited::Tasks if number == 1 => "1 task".to_owned(),
        Limited::Tasks => format!("{number} tasks"),
        Limited::Gpus if number == 1 => "1 GPU".to_owned(),
        Limited::Gpus => format!("{number} GPUs"),
        Limited::Processes if number == 1 => "1 process".to_owned(),
        Limited::Processes => format!("{number} processes"),
        Limited::Alone if number == 1 => "1 GPU for itself".to_owned(),
        Limited::Alone => format!("{number} GPUs for itself"),
        Limited::Swap => format!("{} of host memory", Bytes(number)),
        Limited::Unknown => number.to_string(),
        Limited::Which if number == 0 => "no GPU".to_owned(),
        Limited::Which => {
            let numbers = (0..u64::BITS).filter(|gpu| number >> gpu & 1 == 1);
            let numbers: Vec<String> = numbers.map(|gpu| gpu.to_string()).collect();
            format!("GPU {}", numbers.join(", "))
        }
        Limited::Waiting if number == 1 => "room for 1 waiting task".to_owned(),
        Limited::Waiting => format!("room for {number} waiting tasks"),
    }
}
