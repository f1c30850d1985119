//! `alg3`: Algorithm 3 of the MGB paper. Memory is a hard limit; among the GPUs
//! with room, the one with the fewest warps charged. Compute never makes a task
//! wait.
//!
//! Ties go to a GPU where the process already has a context (which costs memory
//! and start-up time), then to the one with fewer processes.

use super::{Placement, View, backfill};

pub(super) fn place(view: &View<'_>) -> Vec<Placement> {
    backfill::place(view, |waiter, at, gpu| {
        (gpu.warps, waiter.contexts & (1 << at) == 0, gpu.processes)
    })
}
