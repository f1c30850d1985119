//! What jobs of Slurm have taken of the GPUs: for its accounting, which asks once a job is over. Bounded, and
//! nothing is decided by it.

use std::collections::BTreeMap;
use std::time::Duration;

/// Most jobs that are remembered; those that took something last stay.
pub(super) const MOST: usize = 256;

/// What a job has taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) uid: u32,
    pub(super) tasks: u64,
    pub(super) peak_bytes: u64,
    pub(super) gpu_peak_bytes: u64,
    /// The most bytes of one GPU that it wanted and no GPU here has.
    pub(super) refused_bytes: u64,
    pub(super) waited: Duration,
    pub(super) held: Duration,
    /// When it was granted something last, or gave it back.
    pub(super) touched: Duration,
}

/// What all jobs have taken, by Slurm's numbers.
#[derive(Debug, Default)]
pub(super) struct Usages(pub(super) BTreeMap<u32, Usage>);
