//! Puts the ledger and the queue into the words of [`crate::deadlock`], and
//! tells the victims.

use std::time::Duration;

use mgb_probe::wire::Reply;

use super::quota::over;
use super::{Answer, Broker, Client, Snapshot, SwapOrder, Waiting, reserved_on};
use crate::client::ClientId;
use crate::deadlock::{self, BUSY, Blocked, Holder, QUIET, Room, Way};
use crate::gpu_set::GpuSet;
use crate::ledger::{Holding, TaskKey};
use crate::policies::HOLDER_PATIENCE;

impl Broker {
    /// Finds the way out of every deadlock there is, one victim at a time.
    /// `covered` is what the driver shows free beyond what was granted already.
    pub(super) fn break_deadlocks(
        &mut self,
        covered: &mut [Option<u64>],
        snapshot: &Snapshot,
        now: Duration,
        answers: &mut Vec<Answer>,
    ) {
        // Each round answers a request, so there are no more rounds than those.
        for _ in 0..=self.queue.len() {
            let blocked = self.blocked(now);
            if blocked.is_empty() {
                return;
            }
            let mut holders = self.holders(snapshot, now);
            for holder in &mut holders {
                if !self.may_swap(holder.client, holder.swappable) {
                    holder.swappable = 0;
                }
            }
            match deadlock::resolve(&holders, &blocked, &self.rooms(covered)) {
                None => return,
                Some(Way::Swap { client, gpu, whose }) => {
                    self.claim(gpu, whose, client);
                    self.order_swap(client, gpu, client == whose, answers);
                }
                Some(Way::Admit { client, gpu }) => {
                    if !self.admit(client, gpu, covered, now, answers) {
                        return;
                    }
                }
                Some(Way::Refuse { client }) => {
                    let refused: Vec<Waiting> = self.queue.of(client).cloned().collect();
                    for waiting in refused {
                        tracing::warn!(client, "everybody waits and nobody can be swapped: refused");
                        self.counts.refused += 1;
                        let by_quota = self.beyond_swap(client, self.swappable(client));
                        self.answer(&waiting, by_quota.map_or(Reply::Deadlock, over), answers);
                    }
                }
            }
        }
    }

    /// Bytes of the client's tasks that are not its whole process.
    fn swappable(&self, client: ClientId) -> u64 {
        let tasks = self.ledger.tasks_of(client);
        let parts = tasks.filter(|(_, held)| !held.whole_process);
        parts.map(|(_, held)| held.reserved).sum()
    }

    /// Lets tasks begin that have wanted a GPU for themselves very long, where all others on one only wait.
    pub(super) fn admit_aged(
        &mut self,
        covered: &mut [Option<u64>],
        snapshot: &Snapshot,
        now: Duration,
        answers: &mut Vec<Answer>,
    ) {
        // No lease is left while a request waits that long.
        if !snapshot.leased.is_empty() {
            return;
        }
        loop {
            let blocked = self.blocked(now);
            if !blocked.iter().any(|request| request.aged) {
                return;
            }
            let way = deadlock::beside(&self.holders(snapshot, now), &blocked, &self.rooms(covered));
            let Some(Way::Admit { client, gpu }) = way else {
                return;
            };
            if !self.admit(client, gpu, covered, now, answers) {
                return;
            }
        }
    }

    /// Lets a process have its room on a GPU where others wait to grow, or where a task is to be alone.
    fn admit(
        &mut self,
        client: ClientId,
        gpu: usize,
        covered: &mut [Option<u64>],
        now: Duration,
        answers: &mut Vec<Answer>,
    ) -> bool {
        let fits = |waiting: &&Waiting| {
            let has_room = if waiting.grows() {
                self.has_room_to_grow(waiting, covered, gpu) && self.may_grow(waiting)
            } else {
                self.ledger.cost(client, gpu, waiting.bytes) <= self.grantable(covered, gpu)
                    && !self.within_quota(waiting, GpuSet::of(gpu)).is_empty()
            };
            waiting.gpus.contains(gpu) && has_room
        };
        let Some(mut waiting) = self.queue.of(client).find(fits).cloned() else {
            return false;
        };
        // It has what it asks for, and no more.
        waiting.expected_bytes = waiting.bytes;
        tracing::info!(client, gpu, "those on the GPU only wait: let in beside them");
        if waiting.grows() {
            return self.grant_growth(&waiting, gpu, covered, now, answers);
        }
        self.grant(&waiting, gpu, covered, now, answers)
    }

    fn order_swap(&mut self, client: ClientId, gpu: usize, for_itself: bool, answers: &mut Vec<Answer>) {
        let bit = GpuSet::of(gpu);
        // Its growth there, if that task has memory of its own to give up.
        let own = self.queue.of(client).find(|waiting| {
            !for_itself
                && waiting.grows()
                && waiting.gpus == bit
                && self
                    .ledger
                    .task(waiting.key())
                    .is_some_and(|held| held.reserved > 0)
        });
        let any = || self.queue.of(client).next();
        let (waiting, reply) = match own {
            Some(waiting) => (waiting.clone(), Reply::SwapOut { gpu: gpu as u32 }),
            None => match any() {
                Some(waiting) => (waiting.clone(), Reply::SwapOthers { gpu: gpu as u32 }),
                None => return,
            },
        };
        let reserved = reserved_on(&self.ledger, client, gpu);
        let thread = waiting.request.thread;
        tracing::info!(
            client,
            gpu,
            reserved,
            "everybody on the GPU waits: the youngest makes room"
        );
        if let Some(entry) = self.clients.get_mut(&client) {
            entry.swap_order = Some(SwapOrder {
                thread,
                gpu,
                reserved,
            });
        }
        self.counts.swapped_out += 1;
        self.answer(&waiting, reply, answers);
    }

    /// Every process on every GPU, and the GPUs that are stalled. Nobody, where no wait concerns those who
    /// hold something: of most rounds that is all there is to know.
    pub(super) fn holders_that_wait(&self, snapshot: &Snapshot, now: Duration) -> (Vec<Holder>, GpuSet) {
        if self.blocked(now).is_empty() {
            let empty = self.without_memory();
            debug_assert_eq!(empty, self.stalled(&self.holders(snapshot, now), now));
            return (Vec::new(), empty);
        }
        let holders = self.holders(snapshot, now);
        let stalled = self.stalled(&holders, now);
        (holders, stalled)
    }

    /// GPUs on which no process holds memory, has the GPU for itself, or has left memory to reclaim.
    fn without_memory(&self) -> GpuSet {
        let all = GpuSet::first_of(self.ledger.gpus().len());
        let reclaiming = self.ledger.reclaiming().iter().map(|entry| entry.gpu);
        let holds = |held: &Holding| held.charged() > 0 || held.keeps_others_out();
        let tasks = self.ledger.tasks().filter(|(_, held)| holds(held));
        let taken = tasks.map(|(_, held)| held.gpu).chain(reclaiming);
        taken.fold(all, |empty, gpu| empty & !GpuSet::of(gpu))
    }

    /// GPUs on which no process that holds memory can go on by itself.
    pub(super) fn stalled(&self, holders: &[Holder], now: Duration) -> GpuSet {
        deadlock::stalled(holders, &self.blocked(now), &self.rooms(&[]))
    }

    pub(super) fn rooms(&self, covered: &[Option<u64>]) -> Vec<Room> {
        let shown = |gpu: usize| covered.get(gpu).copied().flatten().unwrap_or(u64::MAX);
        let room = |gpu: usize| Room {
            left: self.ledger.room(gpu).min(shown(gpu)),
            // What libraries of those on the GPU have stays as long as they do.
            hidden: (self.ledger.room(gpu).saturating_sub(shown(gpu))).saturating_sub(self.ledger.taken(gpu)),
            context: self.ledger.gpus()[gpu].context_bytes,
            reclaiming: self.ledger.reclaiming().iter().any(|entry| entry.gpu == gpu),
            full: self.ledger.processes(gpu) >= self.rules.max_processes,
        };
        (0..self.ledger.gpus().len()).map(room).collect()
    }

    /// Every process on every GPU. Goes through the ledger once: there may be hundreds.
    pub(super) fn holders(&self, snapshot: &Snapshot, now: Duration) -> Vec<Holder> {
        let mut waiting: Vec<&Waiting> = self.queue.of_holders().collect();
        waiting.sort_by_key(|waiting| waiting.client);
        let mut tasks = self.ledger.tasks().peekable();
        let mut holders = Vec::new();
        let mut mine: Vec<(TaskKey, &Holding)> = Vec::new();
        let mut requests: &[&Waiting] = &[];
        let mut entry = None;
        let mut last = None;
        for (client, gpu, _) in self.ledger.contexts() {
            if last.replace(client) != Some(client) {
                while tasks.next_if(|(key, _)| key.client < client).is_some() {}
                mine.clear();
                while let Some(task) = tasks.next_if(|(key, _)| key.client == client) {
                    mine.push(task);
                }
                entry = self.clients.get(&client);
                let from = waiting.partition_point(|waiting| waiting.client < client);
                let own = waiting[from..].partition_point(|waiting| waiting.client == client);
                requests = &waiting[from..from + own];
            }
            holders.push(self.holder(client, gpu, entry, &mine, requests, snapshot, now));
        }
        holders
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what the caller has looked up once for all GPUs"
    )]
    fn holder(
        &self,
        client: ClientId,
        gpu: usize,
        entry: Option<&Client>,
        mine: &[(TaskKey, &Holding)],
        requests: &[&Waiting],
        snapshot: &Snapshot,
        now: Duration,
    ) -> Holder {
        let here = || mine.iter().filter(|(_, held)| held.gpu == gpu);
        let (mut reserved, mut swappable) = (0, 0);
        let (mut present, mut alone) = (false, false);
        for (_, held) in here() {
            present |= held.is_present();
            alone |= held.keeps_others_out();
            reserved += held.charged();
            swappable += if held.whole_process { 0 } else { held.reserved };
        }
        let asking: Vec<(TaskKey, u32)> = requests
            .iter()
            .map(|waiting| (waiting.key(), waiting.request.thread))
            .collect();
        let unable = |entry: &Client| entry.cannot_swap.contains(gpu);
        if entry.is_none_or(unable) {
            swappable = 0;
        }
        let ordered = entry.is_some_and(|entry| entry.swap_order.is_some()) || self.is_leaving(client, gpu);
        // Whether the process waits, and none of its tasks on the GPU that count can go on.
        let waits = |counts: fn(&Holding) -> bool| {
            !ordered
                && !requests.is_empty()
                && here()
                    .filter(|(_, held)| counts(held))
                    .all(|(key, held)| !self.can_go_on(*key, held, &asking, snapshot, now))
        };
        let waits_with_room = waits(|held| held.charged() > 0 || held.keeps_others_out());
        Holder {
            client,
            gpu,
            reserved,
            swappable,
            waits: waits_with_room,
            present,
            still: waits_with_room && waits(Holding::is_present),
            alone,
        }
    }

    /// Whether a task of a process may go on by itself while these tasks wait, asked for by these threads.
    pub(super) fn can_go_on(
        &self,
        key: TaskKey,
        held: &Holding,
        asking: &[(TaskKey, u32)],
        snapshot: &Snapshot,
        now: Duration,
    ) -> bool {
        let Some(touch) = self.touched.get(&key).filter(|_| held.running) else {
            return false;
        };
        let waits = asking
            .iter()
            .any(|(waiting, thread)| *waiting == key || *thread == touch.thread);
        let quiet = now.saturating_sub(touch.at);
        let busy = snapshot.busy.contains(&(key.client, held.gpu));
        !waits && quiet < if busy { BUSY } else { QUIET }
    }

    /// The requests that can be part of a deadlock: those of processes that have something, and of others
    /// such as have wanted a GPU for themselves very long.
    pub(super) fn blocked(&self, now: Duration) -> Vec<Blocked> {
        let very_long = self.rules.patience.saturating_mul(HOLDER_PATIENCE);
        let blocked = |waiting: &Waiting| Blocked {
            alone: self.wants_alone(waiting),
            aged: self.wants_alone(waiting) && waiting.waits(now) >= very_long,
            client: waiting.client,
            gpus: waiting.gpus,
            bytes: waiting.bytes,
            own: if waiting.grows() {
                self.ledger.task(waiting.key()).map_or(0, |held| held.reserved)
            } else {
                0
            },
        };
        let of_holders = self.queue.of_holders().map(blocked);
        let aged = now.checked_sub(very_long).into_iter();
        let aged = aged.flat_map(|then| self.queue.alone_since(then));
        let newcomers = aged.filter(|waiting| self.contexts_of(waiting.client).is_empty());
        of_holders.chain(newcomers.map(blocked)).collect()
    }
}
