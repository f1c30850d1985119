//! How a kernel can be run in parts.
use std::collections::BTreeSet;

use mgb_catalogue::report::{KernelParts, ReasonCode};
use serde::{Deserialize, Serialize};

use super::obstacle;

/// What decides how a kernel can be run in parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartsKind {
    /// What keeps workers from taking one block after the other, or the kernel from being cut at all.
    pub obstacles: BTreeSet<ReasonCode>,
    /// Whether its twin, where workers take several blocks, serves only launches whose rows of threads are
    /// whole warps.
    pub whole_rows: bool,
    /// The bytes of each parameter of the kernel; a twin has one more.
    pub parameters: Vec<u32>,
}

impl PartsKind {
    /// How it can be run.
    pub fn parts(&self) -> KernelParts {
        if self.obstacles.iter().any(|&one| obstacle::forbids_slices(one)) {
            KernelParts::Whole
        } else if self.obstacles.is_empty() {
            KernelParts::Twin
        } else {
            KernelParts::Slices
        }
    }

    /// How a kernel can be run in parts that is compiled for several architectures, of which any may run.
    pub fn and(mut self, other: Self) -> Self {
        self.obstacles.extend(other.obstacles);
        self.whole_rows |= other.whole_rows;
        self
    }
}
