//! Who has room and who waits, in the node view.

use serde::{Deserialize, Serialize};

use crate::limited::Limited;

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Between begin and end.
    Running,
    /// Waits for more room.
    Growing,
    /// Over, some of its memory still allocated.
    Ended,
    /// On its way to another GPU.
    Moving,
    /// Idle, and its memory is on its way to the host, to make room for others.
    Evicting,
    /// Idle, and its memory is in the host.
    Evicted,
    /// Waits for room for its memory, which is in the host.
    Restoring,
    /// A person has suspended its process, and its memory has still to leave.
    Suspending,
    /// A person has suspended its process, and it has no memory on the GPU.
    Suspended,
    /// Its process died; the driver does not show the room free yet.
    Reclaiming,
}

/// A task that holds room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// Process.
    pub pid: u32,
    /// Its user.
    #[serde(default)]
    pub uid: u32,
    /// The process's number for the task.
    pub task: u64,
    /// What people know it by; empty for other users than its own.
    pub label: String,
    /// GPU index.
    pub gpu: u32,
    /// See [`TaskState`].
    pub state: TaskState,
    /// Bytes reserved.
    pub reserved_bytes: u64,
    /// Bytes that mgbd expects it to have at most, by its need and earlier runs of its program; 0: it expects
    /// nothing, or has given that up.
    #[serde(default)]
    pub expected_bytes: u64,
    /// Bytes that its process says it has mapped on the GPU, of all its tasks there.
    #[serde(default)]
    pub held_bytes: u64,
    /// The most bytes that it had reserved at once.
    #[serde(default)]
    pub peak_bytes: u64,
    /// Bytes of it that are in host memory.
    #[serde(default)]
    pub evicted_bytes: u64,
    /// Warps charged.
    pub warps: u64,
    /// Milliseconds since it was granted.
    pub age_ms: u64,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitView {
    /// Process.
    pub pid: u32,
    /// Its user.
    #[serde(default)]
    pub uid: u32,
    /// What people know the task by; empty for other users than its own.
    pub label: String,
    /// GPU index, where it can only be one.
    pub gpu: Option<u32>,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that mgbd expects it to take in the end, and would have it begin with: `bytes` or more.
    #[serde(default)]
    pub expected_bytes: u64,
    /// Whether a granted task wants more, or a new task begins.
    pub growth: bool,
    /// Milliseconds it has waited.
    pub waited_ms: u64,
    /// Why it is not considered at all, if it is not.
    #[serde(default)]
    pub held_back: Option<HeldBack>,
    /// It is not considered because its user, or a group of the user's, has as much as it may have at once.
    #[serde(default)]
    pub over_quota: bool,
    /// Of what that is too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<Limited>,
    /// It is not considered because the driver cannot reach any GPU that it could go to.
    #[serde(default)]
    pub gpu_lost: bool,
    /// What it waits for, where that is more than its turn and room.
    #[serde(default)]
    pub waits_for: Option<WaitsFor>,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// Room gathers for it on this GPU, where nobody new begins meanwhile.
    RoomGathers(u32),
    /// Nothing has left its GPUs for long, so that others may begin there again.
    NothingLeaves,
    /// Others wait to grow on the GPUs where it would fit.
    Growth,
    /// All places for processes are taken on the GPUs where it would fit.
    Places,
    /// Its user has as many processes on its GPUs as one of several users may have.
    UserPlaces,
    /// Idle memory stays on its GPUs, since those whose it is have as much in the host as they may have.
    SwapQuota,
    /// The GPUs that it could go to are kept for others than its user.
    OthersGpus,
}

/// Why a request waits although there may be room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBack {
    /// A person has suspended its process.
    Suspended,
    /// Every GPU that it could go to is drained.
    Drained,
}

/// A process that a person has suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedView {
    /// Process.
    pub pid: u32,
    /// Its user.
    #[serde(default)]
    pub uid: u32,
    /// Its job, as `MGB_JOB` says it.
    pub job: Option<String>,
    /// It is suspended with its whole job.
    pub whole_job: bool,
    /// Milliseconds since it was suspended.
    pub age_ms: u64,
    /// By GPU: bytes of its memory that are in the host.
    pub evicted_bytes: Vec<u64>,
}
