//! Puts the ledger, the queue and what was seen into the words of [`crate::eviction`]: what requests lack, and which
//! processes have idle memory.

use std::time::Duration;

use super::Round;
use crate::broker::books::Books;
use crate::broker::orders::Orders;
use crate::broker::queue::{RequestQueue, Waiting};
use crate::broker::snapshot::{Activity, Snapshot};
use crate::eviction::flexgpu::Busy;
use crate::eviction::{IdleProcess, Lack};
use crate::gpu_set::GpuSet;
use crate::ledger::Colocation;

/// Requests that are looked at, the longest wait first: there may be thousands.
const MAX_LACKS: usize = 32;

impl Round<'_> {
    /// The requests that do not fit, and what they lack: those of latency programs first, then those that
    /// grow, then the longest wait.
    pub(in crate::broker) fn lacks(&self, books: &Books, queue: &RequestQueue) -> Vec<Lack> {
        let colocation = Colocation::of(&books.ledger);
        let mut waiting: Vec<&Waiting> = queue.pending.iter().collect();
        waiting.sort_by_key(|waiting| {
            let is_batch = !self.is_latency(waiting.client);
            (is_batch, !waiting.grows(), waiting.since)
        });
        let growing = queue.pending.growing_on();
        let grows = queue.pending.grows().iter();
        let growing_latency: GpuSet = grows
            .filter(|waiting| self.is_latency(waiting.client))
            .map(|waiting| waiting.gpus)
            .collect();
        let lack = |waiting: &&Waiting| {
            let is_latency = self.is_latency(waiting.client);
            // No newcomer goes where growth waits.
            let grows_before = if is_latency { growing_latency } else { growing };
            let is_open = |gpu: &usize| {
                !colocation.is_closed(*gpu, waiting.client)
                    && (waiting.grows() || !grows_before.contains(*gpu))
            };
            let lacking = |gpu: usize| (gpu, self.lacking(books, waiting, gpu));
            let gpus = books.among(waiting.gpus).filter(is_open);
            let gpus: Vec<(usize, u64)> = gpus.map(lacking).collect();
            // What fits somewhere waits for something else.
            let fits = gpus.iter().any(|(_, bytes)| *bytes == 0) || books.wants_alone(&waiting.request);
            (!fits && !gpus.is_empty()).then(|| Lack {
                client: waiting.client,
                is_latency,
                waited: waiting.waits(self.now),
                warps: warps_of(waiting, self.snapshot),
                gpus,
            })
        };
        waiting.iter().take(MAX_LACKS).filter_map(lack).collect()
    }

    /// Bytes that a request lacks on a GPU.
    fn lacking(&self, books: &Books, waiting: &Waiting, gpu: usize) -> u64 {
        let ledger = &books.ledger;
        if waiting.grows() {
            let beyond = ledger.beyond_headroom(waiting.key(), waiting.bytes);
            let in_ledger = beyond.saturating_sub(ledger.room(gpu));
            let shown = self.covered[gpu].map_or(0, |shown| waiting.bytes.saturating_sub(shown));
            in_ledger.max(shown)
        } else {
            let cost = ledger.cost(waiting.client, gpu, waiting.expected_bytes);
            cost.saturating_sub(ledger.room_to_begin(&self.covered, gpu))
        }
    }

    /// The processes that have no work on a GPU where they have memory that can leave.
    pub(in crate::broker) fn idle(
        &self,
        books: &Books,
        queue: &RequestQueue,
        orders: &Orders,
    ) -> Vec<IdleProcess> {
        self.evictable(books, queue, orders, |seen| seen.idle)
    }

    /// The batch programs that have work on a GPU where they have memory that can leave, as if idle for no
    /// time.
    pub(in crate::broker) fn batch_at_work(
        &self,
        books: &Books,
        queue: &RequestQueue,
        orders: &Orders,
    ) -> Vec<IdleProcess> {
        let is_meant = |seen: &Activity| seen.idle.is_none() && !self.is_latency(seen.client);
        self.evictable(books, queue, orders, |seen| {
            is_meant(seen).then_some(Duration::ZERO)
        })
    }

    /// The processes with memory that can leave a GPU of which this says for how long they have been idle
    /// there.
    fn evictable(
        &self,
        books: &Books,
        queue: &RequestQueue,
        orders: &Orders,
        idle_for: impl Fn(&Activity) -> Option<Duration>,
    ) -> Vec<IdleProcess> {
        let mut entries = self.snapshot.activity.iter().peekable();
        let mut idle = Vec::new();
        for holder in self.all_holders(books, queue, orders) {
            let place = (holder.client, holder.gpu);
            while entries
                .next_if(|entry| (entry.client, entry.gpu) < place)
                .is_some()
            {}
            let Some(seen) = entries.next_if(|entry| (entry.client, entry.gpu) == place) else {
                continue;
            };
            let agent = orders.free_agent(holder.client, self.snapshot, self.now);
            let (Some(length), Some(agent)) = (idle_for(seen), agent) else {
                continue;
            };
            if holder.swappable > 0 && !holder.alone {
                idle.push(IdleProcess {
                    client: holder.client,
                    is_latency: !holder.is_batch,
                    gpu: holder.gpu,
                    bytes: holder.swappable,
                    idle: length,
                    phase: seen.phase,
                    stays: self.now.saturating_sub(agent.back()),
                    times: agent.evictions(),
                    uses: seen.uses,
                });
            }
        }
        idle
    }

    /// The processes that have work on a GPU.
    pub(in crate::broker) fn busy(&self) -> Vec<Busy> {
        let at_work = self.snapshot.activity.iter().filter(|seen| seen.idle.is_none());
        let busy = |seen: &Activity| Busy {
            client: seen.client,
            gpu: seen.gpu,
            warps: launched(seen).unwrap_or(u64::MAX),
            lasts: seen.lasts,
        };
        at_work.map(busy).collect()
    }

    /// Bytes that the host has left for evicted memory; `None`: that is not known.
    pub(in crate::broker) fn host_room(&self, books: &Books) -> Option<u64> {
        let there = self.snapshot.host_bytes?;
        Some(match books.rules.swap_memory {
            Some(most) => most.saturating_sub(books.ledger.evicted()).min(there),
            None => there,
        })
    }
}

/// Warps of the largest kernel that a process has launched on a GPU, if it says so.
fn launched(seen: &Activity) -> Option<u64> {
    (seen.warps > 0).then_some(seen.warps)
}

/// Warps of the largest launch that a request is for: as its need has it, or as its process has launched
/// before. All there are where neither is known.
fn warps_of(waiting: &Waiting, snapshot: &Snapshot) -> u64 {
    let own = snapshot
        .activity
        .iter()
        .filter(|seen| seen.client == waiting.client);
    let before = || own.filter_map(launched).max();
    waiting.request.need.warps().or_else(before).unwrap_or(u64::MAX)
}
