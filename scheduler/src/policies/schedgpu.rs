//! `schedgpu`: what schedGPU (Reaño et al.) does, with needs that the compiler
//! found. It knows memory only: a task gets the first GPU in order on which its
//! bytes fit, and waits otherwise, in one of the four ways that are published.
//!
//! Where they would let a large task starve (MMU) or a task of low priority, MGB's
//! patience bounds it, as in [`super::queue`].

use mgb_interface::{Queue, WaitOrder};

use super::queue::{self, Choose};
use super::{GpuState, Placement, View, Waiter};
use crate::gpu_set::GpuSet;

struct First;

impl Choose for First {
    fn choose(&mut self, _waiter: &Waiter, fitting: GpuSet, _gpus: &[GpuState]) -> Option<usize> {
        fitting.first()
    }
}

pub(super) fn place(view: &View<'_>, way: WaitOrder, queue: Queue) -> Vec<Placement> {
    queue::place(view, way.queue().unwrap_or(queue), way.by_priority(), &mut First)
}
