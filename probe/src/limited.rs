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

    /// The one of a number; [`Limited::Unknown`] of what a newer mgbd limits.
    pub fn of(number: u32) -> Limited {
        let known = Limited::ALL.get(number as usize).copied();
        known.unwrap_or(Limited::Unknown)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_list() {
        for (number, what) in Limited::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, number, "{what:?}");
            assert_eq!(Limited::of(number as u32), what);
        }
        // The one that has no number is behind all that have one.
        assert_eq!(Limited::Unknown as usize, Limited::ALL.len());
        assert_eq!(Limited::of(u32::MAX), Limited::Unknown);
    }
}
