//! The order in which memory-hard policies serve: first come first, with
//! backfill and aging.
//!
//! A task that fits nowhere may be passed by later ones that fit. Once it has
//! waited longer than the patience, no later task takes room on any GPU it may
//! use, so that room gathers for it: nobody starves. Tasks of processes that
//! already have something pass it for some time longer (four times the patience):
//! others wait for what they hold, the first in the queue among them. Where
//! nobody who holds memory can go on, they pass it in any case.
//!
//! On a GPU where a granted task waits to grow, processes that hold nothing
//! there do not begin at all.

use super::{GpuState, Placement, View, Waiter};

/// How many times the patience a process that has something may pass others.
const HOLDER_PATIENCE: u32 = 4;

/// Whether the waiter can be placed on the GPU as things stand.
fn fits(waiter: &Waiter, at: usize, gpu: &GpuState) -> bool {
    let bit = 1u64 << at;
    let has_context = waiter.contexts & bit != 0;
    let cost = if has_context {
        waiter.bytes
    } else {
        waiter.bytes.saturating_add(gpu.context_bytes)
    };
    waiter.gpus & bit != 0
        && cost <= gpu.room
        && (has_context || gpu.processes < gpu.max_processes)
        && (!gpu.growth_aged || gpu.stalled)
        && (!gpu.growth_waits || has_context)
}

/// Serves the queue; of the GPUs that fit, a task gets the one whose `rank` is
/// least (the lower index on a tie).
pub(super) fn place<R: Ord>(
    view: &View<'_>,
    rank: impl Fn(&Waiter, usize, &GpuState) -> R,
) -> Vec<Placement> {
    let mut gpus = view.gpus.to_vec();
    let mut contexts: Vec<(u64, u64)> = Vec::new();
    let mut placements = Vec::new();
    // GPUs kept for aged waiters, from newcomers and from holders.
    let (mut kept, mut kept_from_holders) = (0u64, 0u64);
    let stalled = (0..gpus.len())
        .filter(|&gpu| gpus[gpu].stalled)
        .fold(0, |mask, gpu| mask | 1u64 << gpu);
    for (at, waiter) in view.waiting.iter().enumerate() {
        let mut waiter = waiter.clone();
        // A grant made in this round may have brought the process a context.
        for (client, made) in &contexts {
            if *client == waiter.client {
                waiter.contexts |= made;
            }
        }
        let closed = if waiter.holds { kept_from_holders } else { kept };
        let best = (0..gpus.len())
            .filter(|&gpu| closed & (1 << gpu) == 0 && fits(&waiter, gpu, &gpus[gpu]))
            .min_by_key(|&gpu| rank(&waiter, gpu, &gpus[gpu]));
        let Some(gpu) = best else {
            if waiter.waited >= view.patience {
                kept |= waiter.gpus;
            }
            if waiter.waited >= view.patience.saturating_mul(HOLDER_PATIENCE) {
                kept_from_holders |= waiter.gpus & !stalled;
            }
            continue;
        };
        let bit = 1u64 << gpu;
        let state = &mut gpus[gpu];
        if waiter.contexts & bit == 0 {
            state.room -= state.context_bytes;
            state.processes += 1;
            contexts.push((waiter.client, bit));
        }
        state.room -= waiter.bytes;
        state.warps = state.warps.saturating_add(waiter.charge(state));
        placements.push(Placement { waiter: at, gpu });
    }
    placements
}
