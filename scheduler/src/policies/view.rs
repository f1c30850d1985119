//! What a policy decides from.

use std::time::Duration;

use crate::client::{ClientId, ClientSet};
use crate::gpu_set::GpuSet;
use crate::sms::{Sms, TaskLaunch};

/// Others make room on a stalled GPU for this process: what comes free there is not for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whom the room is for.
    pub client: ClientId,
    /// Those that came before it make room as well: nobody else is granted anything there. Otherwise they
    /// may.
    pub over_elders: bool,
}

impl Claim {
    /// Whether the process may be granted room on the GPU.
    pub fn lets(self, client: ClientId) -> bool {
        client == self.client || !self.over_elders && client < self.client
    }
}

/// A GPU as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuState {
    /// Bytes that can be granted now: what the ledger has left, and no more than
    /// the driver shows free beyond what holders may still map.
    pub room: u64,
    /// Bytes of a context, which a process's first task on the GPU pays.
    pub context_bytes: u64,
    /// Warps the GPU can hold.
    pub max_warps: u64,
    /// Warps of the tasks running there.
    pub warps: u64,
    /// Of those, the warps of tasks whose processes have had work under way there lately: no more than
    /// `warps`.
    pub active_warps: u64,
    /// Warps that programs outside MGB count for, by the time for which they had work there.
    pub foreign_warps: u64,
    /// Processes that hold something there.
    pub processes: u32,
    /// How much jobs are expected to use it that do not use it yet, in no unit: 0 where none is.
    pub expected: u32,
    /// Processes that can be there at once.
    pub max_processes: u32,
    /// Processes that have room or a task there: those whom a task that wants the GPU for itself waits for.
    pub present: u32,
    /// Clients with room or a task there, room of dead ones included.
    pub present_by: ClientSet,
    /// Clients whose tasks have the GPU for themselves.
    pub alone_by: ClientSet,
    /// A task there waits to grow: processes that hold nothing there stay out.
    pub growth_waits: bool,
    /// That task has waited beyond the patience: no task begins there.
    pub growth_aged: bool,
    /// No process that holds memory there can go on by itself: room is kept there
    /// from newcomers only.
    pub stalled: bool,
    /// Whom the room that comes free there is for, if others make room for somebody.
    pub claim: Option<Claim>,
    /// All processes with a task running there wait for something: compute keeps no task out.
    pub resting: bool,
}

/// A task that waits to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiter {
    /// The client that asked.
    pub client: ClientId,
    /// GPUs it may be placed on.
    pub gpus: GpuSet,
    /// GPUs on which the process already has a context. If there is any, others wait for the process to go
    /// on.
    pub contexts: GpuSet,
    /// It wants a GPU for itself.
    pub alone: bool,
    /// Bytes to reserve.
    pub bytes: u64,
    /// Its largest launch.
    pub launch: TaskLaunch,
    /// Since when it has waited, on the clock of [`View::now`].
    pub since: Duration,
    /// How long it is expected to run; [`Duration::MAX`]: unknown.
    pub expected: Duration,
    /// When its result is wanted, on the clock of [`View::now`]; `None`: no time was named.
    pub deadline: Option<Duration>,
    /// Higher goes first under policies that look at it.
    pub priority: u32,
    /// The GPU on which room gathers for it once it has waited for long.
    pub gathers: Option<usize>,
}

impl Waiter {
    /// Warps to charge on a GPU.
    pub fn charge(&self, gpu: &GpuState) -> u64 {
        warps_charged(self.launch.warps(), gpu.max_warps)
    }

    /// Bytes that a grant on the GPU takes, the context included where there is none yet.
    pub fn cost(&self, at: usize, gpu: &GpuState) -> u64 {
        if self.contexts.contains(at) {
            self.bytes
        } else {
            self.bytes.saturating_add(gpu.context_bytes)
        }
    }
}

/// Warps to charge for a task on a GPU that holds so many: at most those, and all
/// of them for an unknown launch.
pub fn warps_charged(warps: Option<u64>, max_warps: u64) -> u64 {
    warps.unwrap_or(u64::MAX).min(max_warps)
}

/// What a policy decides from: the GPUs, and the waiting requests in order of arrival.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The GPUs by index.
    pub gpus: &'a [GpuState],
    /// Their multiprocessors, by index.
    pub sms: &'a [Sms],
    /// In order of arrival, unless it says otherwise below.
    pub waiting: &'a [Waiter],
    /// They are in the order in which they are to be served ([`crate::quota::shares`]).
    pub is_ordered: bool,
    /// The time of the decision.
    pub now: Duration,
    /// How long the first may be passed by others; see [`super::Queue`].
    pub patience: Duration,
}

/// A grant: the waiter (its position in the view) and its GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Position in [`View::waiting`].
    pub waiter: usize,
    /// Index of its GPU.
    pub gpu: usize,
}
