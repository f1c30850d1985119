//! What an administrator limits.

use serde::{Deserialize, Serialize};

/// What quotas limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limited {
    /// Bytes of GPU memory.
    Bytes,
    /// Tasks at once.
    Tasks,
    /// GPUs at once.
    Gpus,
    /// Processes on GPUs at once, on each GPU.
    Processes,
}

impl Limited {
    /// All of them, by their numbers.
    pub const ALL: [Limited; 4] = [Limited::Bytes, Limited::Tasks, Limited::Gpus, Limited::Processes];
}
