//! What all jobs of a batch have in common.

use std::ffi::OsString;
use std::path::PathBuf;

use mgb_command::machine::Machine;

use super::auto::AutoSettings;
use crate::parallel::Parallel;

/// How a batch runs its jobs.
#[derive(Debug)]
pub struct Setup {
    /// `mgb` itself: each job starts as `mgb run`.
    pub mgb: PathBuf,
    /// The GPUs that the batch runs on.
    pub machine: Machine,
    /// Variables of every job, beside those of the batch.
    pub environment: Vec<(OsString, OsString)>,
    /// How many run at once at most.
    pub parallel: Parallel,
    /// What to go by where that is as many as the node can use.
    pub auto: AutoSettings,
    /// The folder for logs.
    pub logs: PathBuf,
    /// Where programs write down their tasks.
    pub trace: PathBuf,
    /// Whether jobs whose GPU failed under them run once more, one at a time after all others: then it is no
    /// other job's fault.
    pub again: bool,
}
