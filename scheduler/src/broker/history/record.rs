//! What is remembered, in the form in which it outlives the broker: a list that a file can have.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::broker::program::ProgramId;

/// What a broker has learned of programs and their tasks. Those used last come last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// How long tasks lasted on average.
    pub(super) mean: Option<Duration>,
    pub(super) tasks: Vec<RememberedTask>,
    pub(super) programs: Vec<RememberedProgram>,
    #[serde(default)]
    pub(super) runs: Vec<RememberedRun>,
}

/// A program that `mgb run` started, and how long it took; see [`super::runs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RememberedRun {
    pub(super) uid: u32,
    pub(super) number: u64,
    pub(super) lasted: Duration,
}

/// A kind of tasks, and what it took; see [`super::tasks`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RememberedTask {
    #[serde(flatten)]
    pub(super) program: ProgramId,
    pub(super) site: u32,
    pub(super) label: String,
    pub(super) size: u64,
    pub(super) lasted: Option<Duration>,
    #[serde(default)]
    pub(super) worked: Option<Duration>,
    pub(super) grown_bytes: u64,
}

/// A program, and its overhead; see [`super::overheads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RememberedProgram {
    #[serde(flatten)]
    pub(super) program: ProgramId,
    pub(super) overhead_bytes: u64,
}
