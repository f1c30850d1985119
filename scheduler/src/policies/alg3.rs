//! `alg3`: Algorithm 3 of the MGB paper. Memory is a hard limit; among the GPUs
//! with room, the one with the fewest warps charged. Compute never makes a task
//! wait.
//!
//! Ties go to a GPU where the process already has a context (which costs memory
//! and start-up time), then to the one with fewer processes, then to one that no job is expected to use next.

use super::queue::{Choose, bits};
use super::{GpuState, Waiter};

/// Chooses the GPU with the fewest warps charged.
pub(super) struct Alg3;

impl Choose for Alg3 {
    fn choose(&mut self, waiter: &Waiter, fitting: u64, gpus: &[GpuState]) -> Option<usize> {
        bits(fitting).min_by_key(|&at| {
            let gpu = &gpus[at];
            (
                gpu.warps,
                waiter.contexts & (1 << at) == 0,
                gpu.processes,
                gpu.expected,
            )
        })
    }
}
