//! `mgb`: memory is a hard limit; among the GPUs with room, the one with the least load as it is: the warps
//! of tasks whose processes have work under way, and what programs outside MGB do. A task in a long host
//! phase keeps its memory, and nobody off the GPU.
//!
//! Loads within a twentieth of the GPU of the least are as good as equal, since
//! they change while one looks. Of those, a GPU goes first where the process
//! already has a context (which costs memory and start-up time), then the one with
//! fewest warps charged, active or not, then the one with fewer processes, then the one with most room. Of
//! GPUs without any process those go first that no job is expected to use next.

use std::cmp::Reverse;

use super::queue::Choose;
use super::{GpuState, Waiter};
use crate::gpu_set::GpuSet;

/// Loads that differ by less than this part of what the GPU holds are equal.
const NEAR: u64 = 20;

/// Chooses the GPU with the least load.
pub(super) struct Mgb;

/// Load in thousandths of what the GPU holds.
fn load(gpu: &GpuState) -> u64 {
    let active = gpu.active_warps.saturating_add(gpu.foreign_warps);
    active.saturating_mul(1000) / gpu.max_warps.max(1)
}

impl Choose for Mgb {
    fn choose(&mut self, waiter: &Waiter, fitting: GpuSet, gpus: &[GpuState]) -> Option<usize> {
        let least = fitting.iter().map(|at| load(&gpus[at])).min()?;
        fitting
            .iter()
            .filter(|&at| load(&gpus[at]) <= least + 1000 / NEAR)
            .min_by_key(|&at| {
                let gpu = &gpus[at];
                let charged = gpu.warps.saturating_mul(1000) / gpu.max_warps.max(1);
                let has_context = waiter.contexts.contains(at);
                let expected = if gpu.processes == 0 { gpu.expected } else { 0 };
                (!has_context, charged, gpu.processes, expected, Reverse(gpu.room))
            })
    }
}
