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
//!
//! A task that wants a GPU for itself is passed in the same way, and room gathers
//! for it on one GPU only: the one with the fewest processes to wait for, and the
//! same one for all such tasks that may go there. So it leaves the others to
//! everybody, however long it waits.

use super::{GpuState, Placement, View, Waiter};

/// How many times the patience a process that has something may pass others.
pub const HOLDER_PATIENCE: u32 = 4;

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
        && waiter.closed & bit == 0
        && cost <= gpu.room
        && (has_context || gpu.processes < gpu.max_processes)
        && (!gpu.growth_aged || gpu.stalled)
        && (!gpu.growth_waits || has_context)
}

/// The GPUs that are kept for an aged waiter. `gathering` are those kept for waiters that want one for themselves.
fn keeps(waiter: &Waiter, gpus: &[GpuState], gathering: u64) -> u64 {
    if !waiter.alone {
        return waiter.gpus;
    }
    (0..gpus.len())
        .filter(|gpu| waiter.gpus & (1 << gpu) != 0)
        .min_by_key(|&gpu| (gathering & (1 << gpu) == 0, gpus[gpu].present))
        .map_or(0, |gpu| 1 << gpu)
}

/// Serves the queue; of the GPUs that fit, a task gets the one whose `rank` is
/// least (the lower index on a tie).
pub(super) fn place<R: Ord>(
    view: &View<'_>,
    rank: impl Fn(&Waiter, usize, &GpuState) -> R,
) -> Vec<Placement> {
    let mut gpus = view.gpus.to_vec();
    let mut contexts: Vec<(u64, u64)> = Vec::new();
    let mut placements: Vec<Placement> = Vec::new();
    // GPUs kept for aged waiters, from newcomers and from holders.
    let (mut kept, mut kept_from_holders, mut gathering) = (0u64, 0u64, 0u64);
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
        for placed in &placements {
            let other = &view.waiting[placed.waiter];
            if other.client != waiter.client && (other.alone || waiter.alone) {
                waiter.closed |= 1 << placed.gpu;
            }
        }
        let closed = if waiter.holds { kept_from_holders } else { kept };
        let best = (0..gpus.len())
            .filter(|&gpu| closed & (1 << gpu) == 0 && fits(&waiter, gpu, &gpus[gpu]))
            .min_by_key(|&gpu| rank(&waiter, gpu, &gpus[gpu]));
        let Some(gpu) = best else {
            if waiter.waited < view.patience {
                continue;
            }
            let keeps = keeps(&waiter, &gpus, gathering);
            kept |= keeps;
            if waiter.alone {
                gathering |= keeps;
            }
            if waiter.waited >= view.patience.saturating_mul(HOLDER_PATIENCE) {
                kept_from_holders |= keeps & !stalled;
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
