//! `schedgpu`: what schedGPU (Reaño et al.) does, with needs that the compiler
//! found. It knows memory only: a task gets the first GPU in order on which its
//! bytes fit, and waits otherwise, in one of the four ways that are published.
//!
//! Where they would let a large task starve (MMU) or a task of low priority, MGB's
//! patience bounds it, as in [`super::queue`].

use super::queue::{self, Choose, Queue};
use super::{GpuState, Placement, View, Waiter};
use crate::gpu_set::GpuSet;

/// How tasks wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitOrder {
    /// The first blocks all behind it until it fits.
    #[default]
    Fifo,
    /// "Most memory used": in order, whoever fits.
    Mmu,
    /// As `Fifo` among those of the highest priority that wait.
    PriorityFifo,
    /// As `Mmu` among those of the highest priority that wait.
    PriorityMmu,
}

impl WaitOrder {
    /// All of them.
    pub const ALL: [WaitOrder; 4] = [
        WaitOrder::Fifo,
        WaitOrder::Mmu,
        WaitOrder::PriorityFifo,
        WaitOrder::PriorityMmu,
    ];

    /// What follows `schedgpu:`.
    pub fn name(self) -> &'static str {
        match self {
            WaitOrder::Fifo => "fifo",
            WaitOrder::Mmu => "mmu",
            WaitOrder::PriorityFifo => "priority-fifo",
            WaitOrder::PriorityMmu => "priority-mmu",
        }
    }

    /// The order it stands for; `None`: any will do.
    pub(super) fn queue(self) -> Option<Queue> {
        match self {
            WaitOrder::Mmu => None,
            WaitOrder::Fifo | WaitOrder::PriorityFifo => Some(Queue::InOrder),
            WaitOrder::PriorityMmu => Some(Queue::Backfill),
        }
    }

    fn by_priority(self) -> bool {
        matches!(self, WaitOrder::PriorityFifo | WaitOrder::PriorityMmu)
    }
}

struct First;

impl Choose for First {
    fn choose(&mut self, _waiter: &Waiter, fitting: GpuSet, _gpus: &[GpuState]) -> Option<usize> {
        fitting.first()
    }
}

pub(super) fn place(view: &View<'_>, way: WaitOrder, queue: Queue) -> Vec<Placement> {
    queue::place(view, way.queue().unwrap_or(queue), way.by_priority(), &mut First)
}
