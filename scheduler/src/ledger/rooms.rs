//! Room for requests: what the ledger has left, as far as the driver shows it free too (`covered`, by GPU).

use super::entries::Holding;
use super::{ClientId, Ledger};
use crate::gpu_set::GpuSet;

/// Most bytes in one request under a policy that knows no memory: more than any GPU has, so that the program
/// that asks could not be served in any case.
const MAX_REQUEST_BYTES: u64 = 1 << 50;

impl Ledger {
    /// The set of all GPUs.
    pub fn all_gpus(&self) -> GpuSet {
        GpuSet::first_of(self.gpus().len())
    }

    /// GPUs on which the client has a context.
    pub fn context_gpus(&self, client: ClientId) -> GpuSet {
        self.contexts_of(client).collect()
    }

    /// Bytes that the client's tasks have reserved on the GPU.
    pub fn reserved_on(&self, client: ClientId, gpu: usize) -> u64 {
        let tasks = self.tasks_of(client).filter(|(_, held)| held.gpu == gpu);
        tasks.map(|(_, held)| held.reserved).sum()
    }

    /// Bytes that a process may have on the GPU, its context included.
    pub fn most_bytes(&self, gpu: usize) -> u64 {
        if self.blind() {
            MAX_REQUEST_BYTES
        } else {
            self.gpus()[gpu].usable_bytes
        }
    }

    /// Bytes that can be granted.
    pub fn grantable(&self, covered: &[Option<u64>], gpu: usize) -> u64 {
        if self.blind() {
            return u64::MAX;
        }
        self.room(gpu).min(covered[gpu].unwrap_or(u64::MAX))
    }

    /// Bytes that can be granted to tasks that begin: what holders are expected to need is not theirs, although the
    /// driver shows it free.
    pub fn room_to_begin(&self, covered: &[Option<u64>], gpu: usize) -> u64 {
        if self.blind() {
            return u64::MAX;
        }
        self.room_without(0, covered, gpu)
    }

    /// [`Ledger::room_to_begin`] of all GPUs.
    pub fn rooms_to_begin(&self, covered: &[Option<u64>]) -> Vec<u64> {
        let gpus = 0..self.gpus().len();
        gpus.map(|gpu| self.room_to_begin(covered, gpu)).collect()
    }

    /// As [`Ledger::room_to_begin`], if so much less were kept for those who are expected to need it.
    pub fn room_without(&self, less: u64, covered: &[Option<u64>], gpu: usize) -> u64 {
        let kept = self.charges(gpu).kept() - less;
        let shown = covered[gpu].map_or(u64::MAX, |shown| shown.saturating_sub(kept));
        (self.room(gpu) + less).min(shown)
    }

    /// GPUs on which no process holds memory, has the GPU for itself, or has left memory to reclaim.
    pub fn without_memory(&self) -> GpuSet {
        let reclaiming = self.reclaiming().iter().map(|entry| entry.gpu);
        let holds = |held: &Holding| held.charged() > 0 || held.keeps_others_out();
        let tasks = self.tasks().filter(|(_, held)| holds(held));
        let taken: GpuSet = tasks.map(|(_, held)| held.gpu).chain(reclaiming).collect();
        self.all_gpus() & !taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::test_gpu;

    #[test]
    fn room_is_what_both_the_ledger_and_the_driver_have() {
        let ledger = Ledger::new(vec![test_gpu(0, 100, 10), test_gpu(1, 50, 10)], false);
        assert_eq!(ledger.grantable(&[Some(30), None], 0), 30);
        assert_eq!(ledger.rooms_to_begin(&[Some(130), None]), [100, 50]);
        assert_eq!(ledger.without_memory(), GpuSet::first_of(2));
        let blind = Ledger::new(vec![test_gpu(0, 100, 10)], true);
        assert_eq!(blind.grantable(&[Some(30)], 0), u64::MAX);
        assert_eq!(
            (ledger.most_bytes(0), blind.most_bytes(0)),
            (100, MAX_REQUEST_BYTES)
        );
    }
}
