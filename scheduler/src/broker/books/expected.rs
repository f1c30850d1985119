//! What requests to begin take on a GPU, with what is expected of them.

use mgb_probe::need::ALONE;
use mgb_probe::wire::Request;

use super::Books;
use crate::gpu_set::GpuSet;
use crate::policies::Waiter;

impl Books {
    /// Bytes that are to be there for a task that begins on one of `gpus`, if so many `more` than it asks for
    /// are expected: never so many that no GPU could hold them. One that has a GPU for itself can grow there
    /// anyway.
    pub(in crate::broker) fn expected_bytes(&self, request: &Request, gpus: GpuSet, more: u64) -> u64 {
        let bytes = request.need.reserved_bytes();
        if self.ledger.blind() || request.need.flags & ALONE != 0 {
            return bytes;
        }
        let holds = |gpu: usize| {
            let gpu = &self.ledger.gpus()[gpu];
            gpu.usable_bytes.saturating_sub(gpu.context_bytes)
        };
        let most = self.among(gpus).map(holds).max().unwrap_or(0);
        bytes.saturating_add(more).min(most).max(bytes)
    }

    /// The GPUs of the set that there are.
    pub(in crate::broker) fn among(&self, gpus: GpuSet) -> impl Iterator<Item = usize> + use<> {
        (gpus & self.ledger.all_gpus()).iter()
    }

    /// Whether there is room for the task and what it is expected to need.
    pub(in crate::broker) fn can_begin(&self, waiter: &Waiter, rooms: &[u64]) -> bool {
        self.among(waiter.gpus)
            .any(|gpu| self.cost(waiter, waiter.bytes, gpu) <= rooms[gpu])
    }

    /// Bytes with the waiter's context on the GPU, where it has none yet.
    pub(in crate::broker) fn cost(&self, waiter: &Waiter, bytes: u64, gpu: usize) -> u64 {
        let context = if waiter.contexts.contains(gpu) {
            0
        } else {
            self.ledger.gpus()[gpu].context_bytes
        };
        bytes.saturating_add(context)
    }
}
