//! What the ledger's entries are.

use std::time::Duration;

use mgb_probe::wire::Text;
use serde::{Deserialize, Serialize};

use crate::client::ClientId;
use crate::gpu_set::GpuSet;

/// A task on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskKey {
    /// The client that asked.
    pub client: ClientId,
    /// The client's number for it.
    pub task: u64,
}

/// What a task holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Index of the task's GPU.
    pub gpu: usize,
    /// Bytes reserved for it.
    pub reserved: u64,
    /// The most bytes that it had reserved at once.
    pub peak: u64,
    /// Bytes that it is expected to have at most, which it is charged if that is more; 0: nobody expects
    /// anything, or not any more.
    pub expected_bytes: u64,
    /// Warps charged; 0 once it ended.
    pub warps: u64,
    /// Between begin and end.
    pub running: bool,
    /// Its memory, or a part, is in host memory: it will want room again, even
    /// after its end.
    pub swapped: bool,
    /// Bytes of it that are in host memory.
    pub evicted: u64,
    /// The process is the task.
    pub whole_process: bool,
    /// While it runs no other process is to have anything on the GPU.
    pub alone: bool,
    /// GPUs where it may go on; empty: it stays where it is.
    pub may_go: GpuSet,
    /// What people know it by.
    pub label: Text,
    /// When it was granted, on the broker's clock.
    pub granted: Duration,
    /// When its result is wanted, on the broker's clock; `None`: no time was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// Its grant may serve later runs of it, of which nobody is told: a lease.
    #[serde(default)]
    pub may_rest: bool,
    /// What of the time since then does not count.
    #[serde(default, skip_serializing_if = "EvictedTime::is_none")]
    pub away: EvictedTime,
}

/// What a process is charged on a GPU beside its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextCharge {
    /// Bytes of an ordinary context.
    pub bytes: u64,
    /// Bytes that the process is expected to take beside that, and has not taken yet: modules, libraries'
    /// workspaces.
    pub overhead: u64,
    /// Bytes that it was last seen to have beside that. They are no charge: the driver shows that they are
    /// not free.
    pub taken: u64,
    /// The most that it was seen to have.
    pub most_taken: u64,
}

/// The room of a task that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The GPU where it goes; index.
    pub gpu: usize,
    /// Bytes that are charged there.
    pub bytes: u64,
    /// The number of the order that the task's client was given.
    pub order: u32,
}

/// Room of a dead process that the driver does not show free yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaiming {
    /// Names the entry.
    pub id: u64,
    /// The client that died.
    pub client: ClientId,
    /// Index of the GPU.
    pub gpu: usize,
    /// Bytes charged: reservations and context.
    pub bytes: u64,
    /// When it was marked, on the broker's clock.
    pub since: Duration,
}

/// Why an entry is refused. Both are mistakes of the caller, which is to ask
/// [`crate::Ledger::room`] first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// It does not fit.
    #[error("GPU {gpu} has room for {room} bytes, not for {wanted}")]
    Full {
        /// Index of the GPU.
        gpu: usize,
        /// Bytes asked for, with the context where one is needed.
        wanted: u64,
        /// Bytes that are free.
        room: u64,
    },
    /// The task is not in the ledger, or already is.
    #[error("task {} of client {} is {}known", .0.task, .0.client, if *.1 { "already " } else { "not " })]
    Task(TaskKey, bool),
}

/// A GPU's charges, in bytes and warps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charges {
    /// Reservations of living processes.
    pub reserved: u64,
    /// What their running tasks are expected to need beyond those.
    pub headroom: u64,
    /// Contexts of living processes.
    pub contexts: u64,
    /// What the processes are expected to take beside their tasks and contexts.
    pub overhead: u64,
    /// What dead processes had, until it is free.
    pub reclaiming: u64,
    /// Warps of running tasks.
    pub warps: u64,
}

impl Charges {
    /// All bytes charged.
    pub fn bytes(&self) -> u64 {
        self.reserved + self.contexts + self.reclaiming + self.kept()
    }

    /// Bytes that nobody has asked for or taken yet: what is only expected, of tasks and of processes.
    pub fn kept(&self) -> u64 {
        self.headroom + self.overhead
    }

    /// Whether nobody has anything there but contexts, which stay.
    pub fn is_idle(&self) -> bool {
        self.bytes() == self.contexts + self.overhead
    }

    /// A task's bytes and warps.
    pub(super) fn put_on(&mut self, held: &Holding) {
        self.reserved += held.reserved;
        self.headroom += held.headroom();
        self.warps += held.warps;
    }

    /// A task's bytes and warps are gone.
    pub(super) fn take_off(&mut self, held: &Holding) {
        self.reserved -= held.reserved;
        self.headroom -= held.headroom();
        self.warps -= held.warps;
    }
}

/// When a task had its memory in the host, and what was said of its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictedTime {
    /// For how long, before the last time.
    pub before: Duration,
    /// Since when it has it there now; `None`: it has not.
    pub since: Option<Duration>,
    /// It was said that the task has had more time than it may.
    pub is_told: bool,
}

impl EvictedTime {
    fn is_none(&self) -> bool {
        *self == EvictedTime::default()
    }

    pub(super) fn until(&self, now: Duration) -> Duration {
        let since = self.since.map(|since| now.saturating_sub(since));
        self.before.saturating_add(since.unwrap_or_default())
    }
}

impl Holding {
    /// How long it has had its memory on a GPU.
    pub fn time(&self, now: Duration) -> Duration {
        let age = now.saturating_sub(self.granted);
        age.saturating_sub(self.away.until(now))
    }
}
