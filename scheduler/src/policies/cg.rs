//! `cg:N`: coarse-grained sharing. Up to N processes per GPU, in turn, blind to
//! memory: what does not fit fails in the program.
//!
//! A process gets the GPU with the fewest processes, and keeps it.

use super::{Placement, View};

pub(super) fn place(view: &View<'_>, most: u32) -> Vec<Placement> {
    let mut processes: Vec<u32> = view.gpus.iter().map(|gpu| gpu.processes).collect();
    let mut settled: Vec<(u64, usize)> = Vec::new();
    let mut placements = Vec::new();
    for (at, waiter) in view.waiting.iter().enumerate() {
        let own = settled
            .iter()
            .find(|(client, _)| *client == waiter.client)
            .map(|(_, gpu)| *gpu)
            .or_else(|| (0..view.gpus.len()).find(|gpu| waiter.contexts.contains(gpu)))
            .filter(|gpu| waiter.gpus.contains(gpu));
        let gpu = match own {
            Some(gpu) => Some(gpu),
            None => (0..view.gpus.len())
                .filter(|&gpu| {
                    waiter.gpus.contains(gpu) && processes[gpu] < most.min(view.gpus[gpu].max_processes)
                })
                .min_by_key(|&gpu| processes[gpu]),
        };
        let Some(gpu) = gpu else { continue };
        if own.is_none() {
            processes[gpu] += 1;
            settled.push((waiter.client, gpu));
        }
        placements.push(Placement { waiter: at, gpu });
    }
    placements
}
