//! What the policy decides from: GPUs as the ledger, the driver and the clients
//! show them.

use std::time::Duration;

use super::{Activity, Broker, Snapshot, Waiting};
use crate::deadlock::Holder;
use crate::gpu_set::GpuSet;
use crate::ledger::Colocation;
use crate::policies::{GpuState, Waiter};
use crate::sms::Launch;

/// Parts of a whole in which [`Snapshot::activity`] counts.
pub const WHOLE: u32 = 1000;

impl Broker {
    /// The GPUs.
    pub(super) fn gpu_states(
        &self,
        covered: &[Option<u64>],
        snapshot: &Snapshot,
        stalled: GpuSet,
        holders: &[Holder],
        now: Duration,
    ) -> Vec<GpuState> {
        let colocation = Colocation::of(&self.ledger);
        let mut states: Vec<GpuState> = (0..self.ledger.gpus().len())
            .map(|gpu| {
                let (info, on) = (&self.ledger.gpus()[gpu], colocation.on(gpu));
                let warps = self.ledger.charges(gpu).warps;
                GpuState {
                    room: self.room_to_begin(covered, gpu),
                    context_bytes: info.context_bytes,
                    max_warps: info.max_warps,
                    warps,
                    active_warps: warps,
                    foreign_warps: foreign_warps(info.max_warps, snapshot.foreign.get(gpu)),
                    processes: self.ledger.processes(gpu),
                    expected: self.expected_on(gpu),
                    max_processes: self.rules.max_processes,
                    present: on.count,
                    present_by: on.present,
                    alone_by: on.alone,
                    growth_waits: false,
                    growth_aged: false,
                    stalled: stalled.contains(gpu),
                    claim: self.claims.get(&gpu).copied(),
                    resting: true,
                }
            })
            .collect();
        for key in &snapshot.leased {
            if let Some(held) = self.ledger.task(*key) {
                let state = &mut states[held.gpu];
                state.warps = state.warps.saturating_sub(held.warps);
            }
        }
        for waiting in self.queue.grows() {
            let Some(gpu) = waiting.gpus.first() else {
                continue;
            };
            let keeps_others_out =
                !colocation.is_closed(gpu, waiting.client) && !self.gathers.is_open(gpu, now);
            if keeps_others_out {
                states[gpu].growth_waits = true;
                states[gpu].growth_aged |= waiting.waits(now) >= self.rules.patience;
            }
        }
        for (client, gpu) in self.ledger.computing() {
            let is_still = |holder: &Holder| (holder.client, holder.gpu) == (client, gpu) && holder.still;
            states[gpu].resting &= holders.iter().any(is_still);
        }
        self.note_activity(snapshot, &mut states);
        states
    }

    /// Takes off the warps of tasks whose processes are in a host phase.
    fn note_activity(&self, snapshot: &Snapshot, states: &mut [GpuState]) {
        let mut idle = vec![0u64; states.len()];
        let mut entries = snapshot.activity.iter().peekable();
        for (key, held) in self.ledger.tasks().filter(|(_, held)| held.warps > 0) {
            while entries.next_if(|entry| entry.client < key.client).is_some() {}
            // An entry of each GPU, of which there are few.
            let own = entries.clone().take_while(|entry| entry.client == key.client);
            let active = own
                .filter(|entry| entry.gpu == held.gpu)
                .map(|entry| entry.part)
                .next();
            let part = WHOLE - active.unwrap_or(WHOLE).min(WHOLE);
            idle[held.gpu] += held.warps * u64::from(part) / u64::from(WHOLE);
        }
        for (state, idle) in states.iter_mut().zip(idle) {
            state.active_warps = state.active_warps.saturating_sub(idle).min(state.warps);
        }
    }

    /// A request to begin, as policies see it.
    pub(super) fn waiter(&self, waiting: &Waiting, expected: Duration) -> Waiter {
        Waiter {
            client: waiting.client,
            gpus: waiting.gpus,
            contexts: self.contexts_of(waiting.client),
            alone: self.wants_alone(waiting),
            bytes: waiting.expected_bytes,
            launch: Launch::of(&waiting.request.need),
            since: waiting.since,
            expected,
            priority: waiting.request.need.priority,
            gathers: None,
        }
    }
}

/// The warps that programs outside MGB count for, which have work there for so much of the time.
fn foreign_warps(max_warps: u64, part: Option<&u32>) -> u64 {
    let part = part.copied().unwrap_or(0).min(WHOLE);
    max_warps * u64::from(part) / u64::from(WHOLE)
}

/// How much of a GPU the processes in question fill, in thousandths.
pub(super) fn work(snapshot: &Snapshot, is_meant: impl Fn(&Activity) -> bool) -> u32 {
    let seen = snapshot.activity.iter().filter(|seen| is_meant(seen));
    seen.fold(0, |sum, seen| sum.saturating_add(seen.part))
}
