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
    /// GPUs that tasks have for themselves at once.
    Alone,
    /// Bytes of host memory for what leaves GPUs.
    Swap,
    /// Tasks that wait to begin at once.
    Waiting,
    /// Which GPUs: the amounts are sets of them, one bit each.
    Which,
    /// What a newer mgbd says in a word that is not known here.
    Unknown,
}

impl Limited {
    /// All that are known, by their numbers.
    pub const ALL: [Limited; 8] = [
        Limited::Bytes,
        Limited::Tasks,
        Limited::Gpus,
        Limited::Processes,
        Limited::Alone,
        Limited::Swap,
        Limited::Waiting,
        Limited::Which,
    ];

    /// What it is called where somebody waits for it.
    pub fn name(self) -> &'static str {
        match self {
            Limited::Bytes => "memory",
            Limited::Tasks => "tasks",
            Limited::Gpus => "GPUs",
            Limited::Processes => "processes",
            Limited::Alone => "GPUs for itself",
            Limited::Swap => "host memory",
            Limited::Waiting => "waiting tasks",
            Limited::Which => "these GPUs",
            Limited::Unknown => "something that this version does not know",
        }
    }
}
