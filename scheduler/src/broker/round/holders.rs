//! Puts the ledger and the queue into the words of [`crate::deadlock`].

use super::{Round, rooms};
use crate::broker::books::Books;
use crate::broker::orders::Orders;
use crate::broker::queue::{RequestQueue, Waiting};
use crate::client::ClientId;
use crate::deadlock::{self, Blocked, GpuProcess};
use crate::gpu_set::GpuSet;
use crate::ledger::{Holding, TaskKey};
use crate::policies::HOLDER_PATIENCE;

/// The tasks of a process and its requests, looked up once for all its GPUs.
struct ProcessTasks<'a> {
    client: ClientId,
    tasks: Vec<(TaskKey, &'a Holding)>,
    /// The tasks that its requests are for, and the threads that asked.
    asking: Vec<(TaskKey, u32)>,
}

impl Round<'_> {
    /// Every process on every GPU, and the GPUs that are stalled. No process, where no wait concerns those who
    /// hold something: of most rounds that is all there is to know.
    pub(super) fn holders_that_wait(
        &self,
        books: &Books,
        queue: &RequestQueue,
        orders: &Orders,
    ) -> (Vec<GpuProcess>, GpuSet) {
        if self.blocked(books, queue).is_empty() {
            let empty = books.ledger.without_memory();
            debug_assert_eq!(empty, self.find_stalled(books, queue, orders));
            return (Vec::new(), empty);
        }
        let holders = self.all_holders(books, queue, orders);
        let stalled = self.stalled_among(books, queue, &holders);
        (holders, stalled)
    }

    /// GPUs on which no process that holds memory can go on by itself, as things stand now.
    pub(in crate::broker) fn find_stalled(
        &self,
        books: &Books,
        queue: &RequestQueue,
        orders: &Orders,
    ) -> GpuSet {
        self.stalled_among(books, queue, &self.all_holders(books, queue, orders))
    }

    /// Every process on every GPU, as things stand now. Goes through the ledger once: there may be hundreds.
    pub(in crate::broker) fn all_holders(
        &self,
        books: &Books,
        queue: &RequestQueue,
        orders: &Orders,
    ) -> Vec<GpuProcess> {
        let mut waiting: Vec<&Waiting> = queue.pending.of_holders().collect();
        waiting.sort_by_key(|waiting| waiting.client);
        let mut tasks = books.ledger.tasks().peekable();
        let mut holders = Vec::new();
        let mut process: Option<ProcessTasks<'_>> = None;
        for (client, gpu, _) in books.ledger.contexts() {
            let process = match &mut process {
                Some(process) if process.client == client => process,
                other => {
                    while tasks.next_if(|(key, _)| key.client < client).is_some() {}
                    let mut own = Vec::new();
                    while let Some(task) = tasks.next_if(|(key, _)| key.client == client) {
                        own.push(task);
                    }
                    let from = waiting.partition_point(|waiting| waiting.client < client);
                    let own_requests = waiting[from..].iter().take_while(|one| one.client == client);
                    other.insert(ProcessTasks {
                        client,
                        tasks: own,
                        asking: own_requests
                            .map(|waiting| (waiting.key(), waiting.request.thread))
                            .collect(),
                    })
                }
            };
            holders.push(self.holder(process, gpu, queue, orders));
        }
        holders
    }

    fn holder(
        &self,
        process: &ProcessTasks<'_>,
        gpu: usize,
        queue: &RequestQueue,
        orders: &Orders,
    ) -> GpuProcess {
        let client = process.client;
        let here = || process.tasks.iter().filter(|(_, holding)| holding.gpu == gpu);
        let (mut reserved, mut swappable) = (0, 0);
        let (mut present, mut alone) = (false, false);
        for (_, holding) in here() {
            present |= holding.is_present();
            alone |= holding.keeps_others_out();
            reserved += holding.charged();
            swappable += if holding.whole_process {
                0
            } else {
                holding.reserved
            };
        }
        if orders.cannot_swap(client, gpu) {
            swappable = 0;
        }
        let ordered = orders.is_to_swap(client) || orders.is_leaving(client, gpu);
        let is_busy = self.snapshot.busy.contains(&(client, gpu));
        let can_go_on = |key, holding: &Holding| {
            queue
                .touches
                .can_go_on(key, holding, &process.asking, is_busy, self.now)
        };
        // Whether the process waits, and none of its tasks on the GPU that count can go on.
        let waits = |counts: fn(&Holding) -> bool| {
            !ordered
                && !process.asking.is_empty()
                && here()
                    .filter(|(_, holding)| counts(holding))
                    .all(|(key, holding)| !can_go_on(*key, holding))
        };
        let waits_with_room = waits(|holding| holding.charged() > 0 || holding.keeps_others_out());
        GpuProcess {
            client,
            is_batch: !self.is_latency(client),
            gpu,
            reserved,
            swappable,
            waits: waits_with_room,
            present,
            still: waits_with_room && waits(Holding::is_present),
            alone,
        }
    }

    fn stalled_among(&self, books: &Books, queue: &RequestQueue, holders: &[GpuProcess]) -> GpuSet {
        deadlock::stalled(holders, &self.blocked(books, queue), &rooms(books, &[]))
    }

    /// The requests that can be part of a deadlock: those of processes that have something, and of others
    /// such as have wanted a GPU for themselves very long.
    pub(in crate::broker) fn blocked(&self, books: &Books, queue: &RequestQueue) -> Vec<Blocked> {
        let very_long = books.rules.patience.saturating_mul(HOLDER_PATIENCE);
        let blocked = |waiting: &Waiting| Blocked {
            alone: books.wants_alone(&waiting.request),
            aged: books.wants_alone(&waiting.request) && waiting.waits(self.now) >= very_long,
            client: waiting.client,
            is_batch: !self.is_latency(waiting.client),
            gpus: waiting.gpus,
            bytes: waiting.bytes,
            own: if waiting.grows() {
                let task = books.ledger.task(waiting.key());
                task.map_or(0, |holding| holding.reserved)
            } else {
                0
            },
        };
        let of_holders = queue.pending.of_holders().map(blocked);
        let aged = self.now.checked_sub(very_long).into_iter();
        let aged = aged.flat_map(|then| queue.pending.alone_since(then));
        let newcomers = aged.filter(|waiting| books.ledger.context_gpus(waiting.client).is_empty());
        of_holders.chain(newcomers.map(blocked)).collect()
    }
}
