//! What a request waits for, as people are told: what keeps it from the GPUs where there is room for it.

use std::time::Duration;

use mgb_probe::view::WaitsFor;

use super::Broker;
use crate::broker::queue::Waiting;
use crate::gpu_set::GpuSet;
use crate::ledger::Colocation;

/// What is the same for all requests that wait at a time.
pub(super) struct WaitReasons<'a> {
    broker: &'a Broker,
    /// GPUs on which tasks wait to grow.
    growing: GpuSet,
    colocation: Colocation,
}

impl Broker {
    /// What keeps requests from GPUs now.
    pub(super) fn wait_reasons(&self) -> WaitReasons<'_> {
        WaitReasons {
            broker: self,
            growing: self.queue.pending.growing_on(),
            colocation: Colocation::of(&self.books.ledger),
        }
    }
}

impl WaitReasons<'_> {
    /// What a request waits for, where that is more than its turn and room. `gathers`: the GPU on which room
    /// gathers for it.
    pub(super) fn of(&self, waiting: &Waiting, gathers: Option<usize>, now: Duration) -> Option<WaitsFor> {
        let broker = self.broker;
        let (books, ledger) = (&broker.books, &broker.books.ledger);
        if let Some(gpu) = gathers {
            return Some(WaitsFor::RoomGathers(gpu as u32));
        }
        if waiting.grows() || ledger.blind() {
            return None;
        }
        let uid = books.clients.user(waiting.client);
        if broker.reserve.gathers.are_given_up(uid, waiting.gpus, now) {
            return Some(WaitsFor::NothingLeaves);
        }
        let others_are_on = |gpu: usize| self.colocation.on(gpu).present.others_than(waiting.client);
        if books.wants_alone(&waiting.request) && books.among(waiting.gpus).all(others_are_on) {
            return Some(WaitsFor::OwnGpu);
        }
        let fits = |gpu: &usize| {
            ledger.cost(waiting.client, *gpu, waiting.bytes) <= ledger.room(*gpu)
                && !ledger.has_context(waiting.client, *gpu)
        };
        let fitting: Vec<usize> = books.among(waiting.gpus).filter(fits).collect();
        if fitting.is_empty() {
            let keeps_swap = broker.accounts.keeps_swap(waiting.gpus);
            return keeps_swap.then_some(WaitsFor::SwapQuota);
        }
        let reasons: Option<Vec<(u32, WaitsFor)>> =
            fitting.iter().map(|gpu| self.closed_by(*gpu, waiting)).collect();
        // Where GPUs are closed for several reasons, the one that is said first is the one that ends last.
        let last = reasons?.into_iter().max_by_key(|(rank, _)| *rank)?;
        Some(last.1)
    }

    /// Why a GPU with room takes nobody new, and how late that ends beside other reasons.
    fn closed_by(&self, gpu: usize, waiting: &Waiting) -> Option<(u32, WaitsFor)> {
        let books = &self.broker.books;
        if books.ledger.processes(gpu) >= books.rules.max_processes {
            return Some((0, WaitsFor::Places));
        }
        let gathers = self.broker.reserve.gathers.all();
        let gathering = gathers
            .iter()
            .find(|(at, gather)| *at == gpu && gather.key.client != waiting.client);
        if let Some((_, gather)) = gathering {
            let pid = books.clients.pid(gather.key.client);
            return Some((3, WaitsFor::GathersFor(pid)));
        }
        if self.colocation.is_closed(gpu, waiting.client) {
            return Some((2, WaitsFor::KeptAlone));
        }
        self.growing.contains(gpu).then_some((1, WaitsFor::Growth))
    }
}
