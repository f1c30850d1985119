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
}

impl Limited {
    /// All of them, by their numbers.
    pub const ALL: [Limited; 3] = [Limited::Bytes, Limited::Tasks, Limited::Gpus];
}
