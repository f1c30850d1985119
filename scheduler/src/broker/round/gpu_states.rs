//! What the policy decides from: GPUs as the ledger, the driver and the clients
//! show them.

use super::Round;
use crate::broker::books::Books;
use crate::broker::jobs::Jobs;
use crate::broker::queue::RequestQueue;
use crate::broker::reserve::Reserve;
use crate::broker::snapshot::{Snapshot, WHOLE};
use crate::client::ClientId;
use crate::deadlock::GpuProcess;
use crate::ledger::{Colocation, Ledger};
use crate::policies::GpuState;

impl Round<'_> {
    /// The GPUs, as policies see them. `heeds`: whose growth keeps others out.
    pub(in crate::broker) fn gpu_states(
        &self,
        books: &Books,
        queue: &RequestQueue,
        reserve: &Reserve,
        jobs: &Jobs,
        heeds: impl Fn(ClientId) -> bool,
    ) -> Vec<GpuState> {
        let (ledger, snapshot) = (&books.ledger, self.snapshot);
        let colocation = Colocation::of(ledger);
        let mut states: Vec<GpuState> = (0..ledger.gpus().len())
            .map(|gpu| {
                let (info, on) = (&ledger.gpus()[gpu], colocation.on(gpu));
                let warps = ledger.charges(gpu).warps;
                GpuState {
                    room: ledger.room_to_begin(&self.covered, gpu),
                    context_bytes: info.context_bytes,
                    max_warps: info.max_warps,
                    warps,
                    active_warps: warps,
                    foreign_warps: foreign_warps(info.max_warps, snapshot.foreign.get(gpu)),
                    processes: ledger.processes(gpu),
                    expected: jobs.expected_on(gpu),
                    max_processes: books.rules.max_processes,
                    present: on.count,
                    present_by: on.present,
                    alone_by: on.alone,
                    growth_waits: false,
                    growth_aged: false,
                    stalled: self.stalled.contains(gpu),
                    claim: reserve.claims.on(gpu),
                    resting: true,
                }
            })
            .collect();
        for key in &snapshot.leased {
            if let Some(holding) = ledger.task(*key) {
                let state = &mut states[holding.gpu];
                state.warps = state.warps.saturating_sub(holding.warps);
            }
        }
        for waiting in queue
            .pending
            .grows()
            .iter()
            .filter(|waiting| heeds(waiting.client))
        {
            let Some(gpu) = waiting.gpus.first() else {
                continue;
            };
            let keeps_others_out =
                !colocation.is_closed(gpu, waiting.client) && !reserve.gathers.is_open(gpu, self.now);
            if keeps_others_out {
                states[gpu].growth_waits = true;
                states[gpu].growth_aged |= waiting.waits(self.now) >= books.rules.patience;
            }
        }
        for (client, gpu) in ledger.computing() {
            let is_still = |holder: &GpuProcess| (holder.client, holder.gpu) == (client, gpu) && holder.still;
            states[gpu].resting &= self.holders.iter().any(is_still);
        }
        note_activity(ledger, snapshot, &mut states);
        states
    }
}

/// Takes off the warps of tasks whose processes are in a host phase.
fn note_activity(ledger: &Ledger, snapshot: &Snapshot, states: &mut [GpuState]) {
    let mut idle = vec![0u64; states.len()];
    let mut entries = snapshot.activity.iter().peekable();
    for (key, holding) in ledger.tasks().filter(|(_, holding)| holding.warps > 0) {
        while entries.next_if(|entry| entry.client < key.client).is_some() {}
        // An entry of each GPU, of which there are few.
        let own = entries.clone().take_while(|entry| entry.client == key.client);
        let active = own
            .filter(|entry| entry.gpu == holding.gpu)
            .map(|entry| entry.part)
            .next();
        let part = WHOLE - active.unwrap_or(WHOLE).min(WHOLE);
        idle[holding.gpu] += holding.warps * u64::from(part) / u64::from(WHOLE);
    }
    for (state, idle) in states.iter_mut().zip(idle) {
        state.active_warps = state.active_warps.saturating_sub(idle).min(state.warps);
    }
}

/// The warps that programs outside MGB count for, which have work there for so much of the time.
fn foreign_warps(max_warps: u64, part: Option<&u32>) -> u64 {
    let part = part.copied().unwrap_or(0).min(WHOLE);
    max_warps * u64::from(part) / u64::from(WHOLE)
}
