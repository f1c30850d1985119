//! Puts the ledger and the queue into the words of [`crate::deadlock`], and
//! tells the victims.

use std::time::Duration;

use mgb_probe::wire::Reply;

use super::{Answer, Broker, Client, Sight, Told, Waiting, reserved_on};
use crate::deadlock::{self, BUSY, Blocked, Holder, QUIET, Room, Way};
use crate::ledger::{ClientId, Holding, TaskKey};
use crate::policies::HOLDER_PATIENCE;

impl Broker {
    /// Finds the way out of every deadlock there is, one victim at a time.
    /// `covered` is what the driver shows free beyond what was granted already.
    pub(super) fn break_deadlocks(
        &mut self,
        covered: &mut [Option<u64>],
        sight: &Sight,
        now: Duration,
        answers: &mut Vec<Answer>,
    ) {
        // Each round answers a request, so there are no more rounds than those.
        for _ in 0..=self.queue.len() {
            let holders = self.holders(sight, now);
            let blocked = self.blocked(now);
            match deadlock::resolve(&holders, &blocked, &self.rooms(covered)) {
                None => return,
                Some(Way::Swap {
                    client,
                    gpu,
                    for_itself,
                }) => {
                    self.tell(client, gpu, for_itself, answers);
                }
                Some(Way::Admit { client, gpu }) => {
                    if !self.admit(client, gpu, covered, now, answers) {
                        return;
                    }
                }
                Some(Way::Refuse { client }) => {
                    let refused: Vec<Waiting> = self
                        .queue
                        .iter()
                        .filter(|w| w.client == client)
                        .cloned()
                        .collect();
                    for waiting in refused {
                        tracing::warn!(client, "everybody waits and nobody can be swapped: refused");
                        self.counts.refused += 1;
                        self.answer(&waiting, Reply::Deadlock, answers);
                    }
                }
            }
        }
    }

    /// Lets tasks begin that have wanted a GPU for themselves very long, where all others on one only wait.
    pub(super) fn admit_aged(
        &mut self,
        covered: &mut [Option<u64>],
        sight: &Sight,
        now: Duration,
        answers: &mut Vec<Answer>,
    ) {
        // Nobody has a lease while somebody waits that long.
        if !sight.leased.is_empty() {
            return;
        }
        loop {
            let blocked = self.blocked(now);
            if !blocked.iter().any(|request| request.aged) {
                return;
            }
            let way = deadlock::beside(&self.holders(sight, now), &blocked, &self.rooms(covered));
            let Some(Way::Admit { client, gpu }) = way else {
                return;
            };
            if !self.admit(client, gpu, covered, now, answers) {
                return;
            }
        }
    }

    /// Lets a process have its room on a GPU where others wait to grow, or where somebody is to be alone.
    fn admit(
        &mut self,
        client: ClientId,
        gpu: usize,
        covered: &mut [Option<u64>],
        now: Duration,
        answers: &mut Vec<Answer>,
    ) -> bool {
        let fits = |waiting: &&Waiting| {
            // Who grows has a context there, which costs nothing.
            waiting.client == client
                && waiting.gpus & (1 << gpu) != 0
                && self.ledger.cost(client, gpu, waiting.bytes) <= self.grantable(covered, gpu)
        };
        let Some(waiting) = self.queue.iter().find(fits).cloned() else {
            return false;
        };
        tracing::info!(client, gpu, "those on the GPU only wait: let in beside them");
        if waiting.grows() {
            return self.grant_growth(&waiting, gpu, covered, now, answers);
        }
        self.grant(&waiting, gpu, covered, now, answers)
    }

    fn tell(&mut self, client: ClientId, gpu: usize, for_itself: bool, answers: &mut Vec<Answer>) {
        let bit = 1u64 << gpu;
        // Its growth there, if that task has memory of its own to give up.
        let own = self.queue.iter().find(|waiting| {
            !for_itself
                && waiting.client == client
                && waiting.grows()
                && waiting.gpus == bit
                && self
                    .ledger
                    .task(waiting.key())
                    .is_some_and(|held| held.reserved > 0)
        });
        let any = || self.queue.iter().find(|waiting| waiting.client == client);
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
            entry.told = Some(Told {
                thread,
                gpu,
                reserved,
            });
        }
        self.counts.swapped_out += 1;
        self.answer(&waiting, reply, answers);
    }

    /// GPUs on which nobody who holds memory can go on by himself.
    pub(super) fn stalled(&self, sight: &Sight, now: Duration) -> u64 {
        deadlock::stalled(&self.holders(sight, now), &self.blocked(now), &self.rooms(&[]))
    }

    fn rooms(&self, covered: &[Option<u64>]) -> Vec<Room> {
        let shown = |gpu: usize| covered.get(gpu).copied().flatten().unwrap_or(u64::MAX);
        let room = |gpu: usize| Room {
            left: self.ledger.room(gpu).min(shown(gpu)),
            hidden: self.ledger.room(gpu).saturating_sub(shown(gpu)),
            context: self.ledger.gpus()[gpu].context_bytes,
            reclaiming: self.ledger.reclaiming().iter().any(|entry| entry.gpu == gpu),
            full: self.ledger.processes(gpu) >= self.rules.max_processes,
        };
        (0..self.ledger.gpus().len()).map(room).collect()
    }

    fn holders(&self, sight: &Sight, now: Duration) -> Vec<Holder> {
        let holder = |(client, gpu, _)| {
            let (mut reserved, mut swappable) = (0, 0);
            let (mut present, mut alone) = (false, false);
            for (_, held) in self.ledger.tasks_of(client).filter(|(_, held)| held.gpu == gpu) {
                present |= held.is_present();
                alone |= held.keeps_others_out();
                reserved += held.reserved;
                swappable += if held.whole_process { 0 } else { held.reserved };
            }
            let unable = |entry: &Client| entry.cannot_swap & (1u64 << gpu) != 0;
            if self.clients.get(&client).is_none_or(unable) {
                swappable = 0;
            }
            let with_room = |held: &Holding| held.reserved > 0 || held.keeps_others_out();
            let waits = self.waits_on(client, gpu, sight, now, with_room);
            let still = waits && self.waits_on(client, gpu, sight, now, Holding::is_present);
            Holder {
                client,
                gpu,
                reserved,
                swappable,
                waits,
                present,
                still,
                alone,
            }
        };
        self.ledger.contexts().map(holder).collect()
    }

    /// Whether the process waits, and none of its tasks on the GPU that count can go on.
    fn waits_on(
        &self,
        client: ClientId,
        gpu: usize,
        sight: &Sight,
        now: Duration,
        counts: impl Fn(&Holding) -> bool,
    ) -> bool {
        let told = self
            .clients
            .get(&client)
            .is_some_and(|entry| entry.told.is_some());
        let mut requests = self
            .queue
            .iter()
            .filter(|waiting| waiting.client == client)
            .peekable();
        if told || requests.peek().is_none() {
            return false;
        }
        let requests: Vec<&Waiting> = requests.collect();
        self.ledger
            .tasks_of(client)
            .filter(|(_, held)| held.gpu == gpu && counts(held))
            .all(|(key, held)| !self.can_go_on(key, held, &requests, sight, now))
    }

    /// Whether a task of a process that waits may go on by itself.
    fn can_go_on(
        &self,
        key: TaskKey,
        held: &Holding,
        requests: &[&Waiting],
        sight: &Sight,
        now: Duration,
    ) -> bool {
        let Some(touch) = self.touched.get(&key).filter(|_| held.running) else {
            return false;
        };
        let waits = requests
            .iter()
            .any(|waiting| waiting.key() == key || waiting.request.thread == touch.thread);
        let quiet = now.saturating_sub(touch.at);
        let busy = sight.busy.contains(&(key.client, held.gpu));
        !waits && quiet < if busy { BUSY } else { QUIET }
    }

    fn blocked(&self, now: Duration) -> Vec<Blocked> {
        let very_long = self.rules.patience.saturating_mul(HOLDER_PATIENCE);
        self.queue
            .iter()
            .map(|waiting| Blocked {
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
            })
            .collect()
    }
}
