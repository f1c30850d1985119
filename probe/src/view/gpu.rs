//! A GPU in the node view.

use serde::{Deserialize, Serialize};

use crate::hello::Gpu;

/// One GPU and its load. Bytes, unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuView {
    /// The GPU, as clients see it in the hello.
    pub gpu: Gpu,
    /// Free as the driver says; `None` if it does not.
    pub driver_free_bytes: Option<u64>,
    /// Reserved for tasks of living processes.
    pub reserved_bytes: u64,
    /// Kept for these tasks and their processes, which are expected to take more: see `docs/POLICIES.md`.
    #[serde(default)]
    pub headroom_bytes: u64,
    /// Mapped under these reservations, as the clients say.
    pub resident_bytes: u64,
    /// Charged for contexts of living processes.
    pub contexts_bytes: u64,
    /// What these processes have beside that and their reservations, as last seen: modules and workspaces of
    /// libraries.
    #[serde(default)]
    pub overhead_bytes: u64,
    /// Charged for dead processes until the driver shows it free.
    pub reclaiming_bytes: u64,
    /// Held by programs that are not under MGB, and by the driver itself.
    pub foreign_bytes: u64,
    /// Warps of the tasks running.
    pub warps_charged: u64,
    /// Processes that hold room or a context.
    pub processes: u32,
    /// Launches not finished yet, as the clients say.
    pub launches_in_flight: u64,
    /// It is drained: nobody is admitted, and who is idle there leaves.
    #[serde(default)]
    pub drained: bool,
    /// What is wrong with it by the driver's word, until a person has it used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails: Option<String>,
    /// The driver cannot reach it: nobody is admitted until it can again.
    #[serde(default)]
    pub lost: bool,
    /// Where half of its places for processes are taken or more: those that no task runs in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<IdleView>,
    /// Of tasks there, what is in host memory.
    #[serde(default)]
    pub evicted_bytes: u64,
    /// Milliseconds in which programs under MGB had work there since mgbd's start, as it has sampled.
    #[serde(default)]
    pub busy_ms: u64,
    /// The part of the last seconds in which they had, in thousandths; `None`: an earlier mgbd does not say.
    #[serde(default)]
    pub load: Option<u32>,
}

impl GpuView {
    /// Bytes that nobody has: neither tasks, contexts and dead processes, nor by the driver's word any other.
    pub fn free_bytes(&self) -> u64 {
        let taken = [
            self.reserved_bytes,
            self.headroom_bytes,
            self.contexts_bytes,
            self.reclaiming_bytes,
        ];
        let taken = taken.into_iter().fold(0, u64::saturating_add);
        let free = self.gpu.usable_bytes.saturating_sub(taken);
        self.driver_free_bytes.map_or(free, |driver| driver.min(free))
    }

    /// Whether it takes nobody since it fails, and not only since a person wants that.
    pub fn is_failing(&self) -> bool {
        self.drained && self.fails.is_some()
    }
}

/// Processes of a user that have a place on a GPU, and no task between its begin and end there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleView {
    /// The user whose processes they are.
    pub uid: u32,
    /// How many there are.
    pub processes: u32,
}
