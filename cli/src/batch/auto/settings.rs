//! What `-j auto` goes by.

use std::path::PathBuf;

use super::peaks::Peaks;

/// What `-j auto` observes, and what it knows of jobs.
#[derive(Clone, Debug)]
pub struct AutoSettings {
    /// The socket of the mgbd in use.
    pub socket: PathBuf,
    /// How many GPUs it shares.
    pub gpus: usize,
    /// What jobs took before.
    pub peaks: Peaks,
}
