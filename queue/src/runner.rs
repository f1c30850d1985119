//! What the service does not know by itself: how a job becomes a command, what its end means, and how many
//! jobs the node can use.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::attempt::{AttemptFolder, Ended, Order};
use crate::record::{Found, JobRecord};

/// A job that runs, for whoever counts what the node has left.
#[derive(Clone, Debug)]
pub struct SeenJob {
    /// Its process, once that is known.
    pub pid: Option<u32>,
    /// When it was started, or taken over.
    pub started: Instant,
    /// The command as it was written.
    pub text: String,
    /// The file of the program.
    pub program: PathBuf,
}

/// How jobs are run.
pub trait Runner {
    /// What is to be executed for this attempt, and further variables for it.
    ///
    /// # Errors
    /// When nothing can be.
    fn order(&mut self, job: &JobRecord, attempt: &AttemptFolder) -> Result<(Order, Vec<(String, String)>)>;

    /// The command of the process that watches this attempt: it calls [`crate::watcher::watch`].
    fn watcher(&self, attempt: &AttemptFolder) -> Command;

    /// What an end means.
    fn judge(&mut self, job: &JobRecord, attempt: &AttemptFolder, ended: &Ended) -> Found;

    /// Takes note of what a job took of host memory at its peak, in bytes.
    fn ended(&mut self, job: &JobRecord, host_peak_bytes: u64);

    /// How many jobs shall run now. `next` are those that would be started, or the first of them.
    ///
    /// # Errors
    /// Why none can be.
    fn wanted(&mut self, running: &[SeenJob], finished: usize, next: &[JobRecord]) -> Result<usize>;

    /// No job runs, and none may start: the node need not be looked at until it is asked again.
    fn rest(&mut self);
}
