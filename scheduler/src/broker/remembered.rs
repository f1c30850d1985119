//! What is remembered, in the form in which it outlives the broker: a list that a file can have.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Broker, Program};

/// See the module. Those used last come last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// How long tasks lasted on average.
    pub(super) mean: Option<Duration>,
    pub(super) tasks: Vec<RememberedTask>,
    pub(super) programs: Vec<RememberedProgram>,
}

/// A kind of tasks, and what it took; see [`super::past`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RememberedTask {
    #[serde(flatten)]
    pub(super) program: Program,
    pub(super) site: u32,
    pub(super) label: String,
    pub(super) size: u64,
    pub(super) lasted: Option<Duration>,
    pub(super) grown_bytes: u64,
}

/// A program, and its overhead; see [`super::overhead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RememberedProgram {
    #[serde(flatten)]
    pub(super) program: Program,
    pub(super) overhead_bytes: u64,
}

impl Broker {
    /// Begins with what an earlier broker remembered.
    pub fn recall(&mut self, remembered: &Remembered) {
        self.past.recall(remembered.mean, &remembered.tasks);
        self.overheads.recall(&remembered.programs);
    }

    /// Whether something was learned since it was last asked what is remembered.
    pub fn has_learned(&self) -> bool {
        self.past.has_learned() || self.overheads.has_learned()
    }

    /// What is remembered now.
    pub fn remembered(&mut self) -> Remembered {
        Remembered {
            mean: self.past.mean(),
            tasks: self.past.remembered(),
            programs: self.overheads.remembered(),
        }
    }
}
