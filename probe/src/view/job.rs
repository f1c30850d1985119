//! Jobs of Slurm in the node view.

use serde::{Deserialize, Serialize};

/// What a job of Slurm has taken of the node's GPUs, with all its steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// The number of the job.
    pub job: u32,
    /// The user of the job.
    pub uid: u32,
    /// Its processes that are connected now.
    pub processes: u32,
    /// Tasks that were granted.
    pub tasks: u64,
    /// The most bytes that it had at once: what its tasks had reserved, and its processes' contexts.
    pub peak_bytes: u64,
    /// The same of one GPU.
    pub gpu_peak_bytes: u64,
    /// The most bytes of one GPU that it wanted and was refused, since no GPU of the node has so much.
    #[serde(default)]
    pub refused_bytes: u64,
    /// Milliseconds that its requests have waited, added up.
    pub waited_ms: u64,
    /// Milliseconds that its tasks had a GPU, added up.
    pub held_ms: u64,
}
