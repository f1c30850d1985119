//! `alg3`: Algorithm 3 of the MGB paper. Memory is a hard limit; among the GPUs
//! with room, the one with the fewest warps charged. Compute never makes a task
//! wait.
//!
//! Ties go to a GPU where the process already has a context (which costs memory
//! and start-up time), then to the one with fewer processes, then to one that no job is expected to use next.

use super::queue::Choose;
use super::{GpuState, Waiter};
use crate::gpu_set::GpuSet;

/// Chooses the GPU with the fewest warps charged.
pub(super) struct Alg3;

impl Choose for Alg3 {
    fn choose(&mut self, waiter: &Waiter, fitting: GpuSet, gpus: &[GpuState]) -> Option<usize> {
        fitting.iter().min_by_key(|&at| {
            let gpu = &gpus[at];
            (
                gpu.warps,
                !waiter.contexts.contains(at),
                gpu.processes,
                gpu.expected,
            )
        })
    }
}
