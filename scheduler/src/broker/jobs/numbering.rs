//! The GPUs that a process's further devices are. Of no program is known how many it uses before it uses them, and
//! the driver is told the order of all as it is initialised: so the order is chosen with the first device, the
//! best GPUs first. What is expected of it counts where GPUs are equal otherwise, so that jobs which start at the
//! same time have different ones, and those that use one only are not in each other's way.

use std::cmp::Reverse;

use mgb_probe::Numbering;
use mgb_probe::wire::{FIRST, NUMBERED, Request};

use super::Jobs;
use super::orders::JobOrder;
use crate::broker::books::Books;
use crate::gpu_set::GpuSet;

/// What a job that was placed on several GPUs is expected to use each: more than any that was not.
const PLACED: u32 = 1 << 16;

impl Jobs {
    /// How much jobs are expected to use a GPU beside their first ones.
    pub(in crate::broker) fn expected_on(&self, gpu: usize) -> u32 {
        let placed = u32::try_from(self.placements.jobs_on(gpu)).unwrap_or(u32::MAX);
        let placed = placed.saturating_mul(PLACED);
        self.orders.expect(gpu).saturating_add(placed)
    }

    /// The worth of a GPU for a device that somebody uses next: the least is the best. Whether it takes nobody,
    /// the warps charged, the processes, what is expected, and the room.
    pub(super) fn next_load(&self, books: &Books, gpu: usize) -> (bool, u64, u32, u32, Reverse<u64>) {
        (
            books.control.closed().contains(gpu),
            books.ledger.charges(gpu).warps,
            books.ledger.processes(gpu),
            self.expected_on(gpu),
            Reverse(books.ledger.room(gpu)),
        )
    }

    /// The order of a process's devices of which the first is to be the GPU, for a program of a user who may use
    /// `usable`; `None`: it asks for none.
    pub(in crate::broker) fn order_with(
        &self,
        books: &Books,
        usable: GpuSet,
        request: &Request,
        gpu: usize,
    ) -> Option<JobOrder> {
        if request.flags & FIRST == 0 {
            return None;
        }
        let only_first = JobOrder {
            first: request.first,
            gpus: GpuSet::EMPTY,
            numbering: Numbering::exchanging(request.first, gpu as u32),
        };
        let visible = GpuSet::from_bits(request.gpus) & usable & books.ledger.all_gpus();
        if request.flags & NUMBERED == 0 || !visible.contains(request.first as usize) {
            return Some(only_first);
        }
        let further = visible.iter().filter(|at| *at != gpu);
        let mut further: Vec<_> = further.map(|at| (self.next_load(books, at), at as u32)).collect();
        further.sort_unstable();
        let gpus: Vec<u32> = std::iter::once(gpu as u32)
            .chain(further.into_iter().map(|(_, at)| at))
            .collect();
        let numbering = Numbering::mapping(&JobOrder::numbers(request.first, visible), &gpus);
        Some(numbering.map_or(only_first, |numbering| JobOrder {
            first: request.first,
            gpus: visible,
            numbering,
        }))
    }
}
