//! Moving tasks that may go on elsewhere: puts the ledger, the queue and what was seen into the words of
//! [`crate::balance`], and gives the orders.
//!
//! A task that moves is charged on both GPUs until its client says that it has arrived, or that the order is
//! over. A client that does not answer keeps both: its memory may be anywhere.

use std::time::Duration;

use mgb_probe::byte_size::Bytes;
use mgb_probe::wire::{ELSEWHERE, Order, Reply, Request};

use super::ask::bad;
use super::moves::Wish;
use super::view::work;
use super::{Answer, Broker, Snapshot, Waiting};
use crate::balance::{self, Move, Mover, Place, SETTLED};
use crate::client::ClientId;
use crate::eviction::Lack;
use crate::gpu_set::GpuSet;
use crate::ledger::{Colocation, Holding, TaskKey};

/// For how long a person's wish is tried.
const TRIED: Duration = Duration::from_secs(5);

impl Broker {
    /// Whether tasks are moved between GPUs.
    pub fn balances(&self) -> bool {
        self.rules.moves
            && self.ledger.gpus().len() > 1
            && !self.ledger.blind()
            && !self.rules.policy.compute_hard()
    }

    /// Whether there is a task that may go on elsewhere: while nobody waits, [`Broker::even_out`] is called
    /// now and then.
    pub fn may_balance(&self) -> bool {
        self.balances() && self.ledger.tasks().any(|(_, held)| is_movable(held))
    }

    /// Orders a task to another GPU where that evens the work out, while nobody waits.
    pub fn even_out(&mut self, snapshot: &Snapshot, now: Duration) {
        self.give_up_orders(now);
        self.balance(&snapshot.covered, &[], snapshot, now);
    }

    /// Orders a task to another GPU where that pays.
    pub(super) fn balance(
        &mut self,
        covered: &[Option<u64>],
        lacks: &[Lack],
        snapshot: &Snapshot,
        now: Duration,
    ) {
        if !self.balances() || covered.len() != self.ledger.gpus().len() {
            return;
        }
        let movers = self.movers(snapshot, now);
        if movers.is_empty() {
            return;
        }
        let places = self.places(covered, snapshot);
        let chosen = match self.rules.shuffles {
            Some(every) => self.shuffled(&movers, &places, every, now),
            None => balance::choose(&movers, &places, lacks),
        };
        let uneven = self.uneven.take();
        let Some(Move {
            key,
            from,
            to,
            is_wanted,
        }) = chosen
        else {
            return;
        };
        let since = uneven.filter(|uneven| (uneven.0, uneven.1) == (from, to));
        let since = since.map_or(now, |(_, _, since)| since);
        if is_wanted || now.saturating_sub(since) >= SETTLED {
            // What does not fit was not chosen.
            let _ = self.order_move(key, to, now);
        } else {
            self.uneven = Some((from, to, since));
        }
    }

    /// Any move that is possible, if it is time for one.
    fn shuffled(
        &mut self,
        movers: &[Mover],
        places: &[Place],
        every: Duration,
        now: Duration,
    ) -> Option<Move> {
        if now < self.shuffle_at {
            return None;
        }
        self.shuffle_at = now + every;
        // The time is as good as a random number.
        let (first, rest) = movers.split_at(now.subsec_nanos() as usize / 1000 % movers.len());
        let goal = |mover: &Mover| Some(mover.goes(balance::goals(mover, places).last()?, true));
        rest.iter().chain(first).find_map(goal)
    }

    /// How often tasks are moved at random.
    pub fn shuffles(&self) -> Option<Duration> {
        self.rules.shuffles.filter(|_| self.may_balance())
    }

    /// Has room ready for the task, and orders its client to bring it there.
    fn order_move(&mut self, key: TaskKey, to: usize, now: Duration) -> Result<(), String> {
        let Some(entry) = self.clients.get(&key.client) else {
            return Err("its process is gone".to_owned());
        };
        if !self.may_be_on(key.client, to) {
            return Err("its user may have no more GPUs".to_owned());
        }
        let number = entry.agent.last.wrapping_add(1).max(1);
        self.ledger
            .expect_arrival(key, to, number)
            .map_err(|error| error.to_string())?;
        let contexts = self.contexts_of(key.client);
        self.queue.has_contexts(key.client, contexts);
        let held = self.ledger.task(key);
        let (gpu, bytes) = held.map_or((0, 0), |held| (held.gpu as u32, held.reserved));
        let order = Order::Move {
            task: key.task,
            gpu,
            to: to as u32,
        };
        self.give_order(key.client, order, bytes, now);
        Ok(())
    }

    /// A client says that its task is where an order sent it.
    pub(super) fn moved(&mut self, key: TaskKey, now: Duration) -> Reply {
        if self.is_queued(key) {
            return bad("the task waits to grow");
        }
        match self.ledger.arrive(key) {
            Ok((from, to)) => {
                let bytes = self.ledger.task(key).map_or(0, |held| held.reserved);
                self.count_move(key, now);
                self.counts.moved += 1;
                self.counts.moved_bytes = self.counts.moved_bytes.saturating_add(bytes);
                tracing::info!(client = key.client, task = key.task, from, to, bytes, "moved");
                Reply::Done
            }
            Err(error) => bad(&error.to_string()),
        }
    }

    fn count_move(&mut self, key: TaskKey, now: Duration) {
        let moves = self.moves.entry(key).or_default();
        moves.times += 1;
        moves.last = now;
    }

    /// An order is over: a task that has not arrived by then stays where it is.
    pub(super) fn came_of_move(&mut self, client: ClientId, number: u64) {
        let is_its = |(key, order): &(TaskKey, u32)| key.client == client && u64::from(*order) == number;
        let ordered = self.ledger.arrivals().map(|(key, arrival)| (key, arrival.order));
        let key = ordered.filter(is_its).map(|(key, _)| key).next();
        if let Some(key) = key {
            self.ledger.give_up_arrival(key);
        }
    }

    /// A person wants a process to go on, on another GPU.
    pub(super) fn move_process(&mut self, request: &Request, now: Duration) -> Reply {
        let gpus = self.ledger.gpus().len();
        let to = request.bytes as usize;
        let pid = u32::try_from(request.task).unwrap_or(0);
        let mut clients = self
            .clients
            .iter()
            .filter(|(_, entry)| entry.pid == pid && !entry.looks);
        let Some((&client, _)) = clients.next().filter(|_| to < gpus) else {
            return Reply::Unknown;
        };
        if self.is_drained(to) {
            return bad("that GPU is drained");
        }
        if self.closed().contains(to) {
            return bad("the driver cannot reach that GPU");
        }
        if self.ledger.tasks_of(client).all(|(_, held)| held.gpu == to) {
            return Reply::Unchanged;
        }
        if self.ledger.blind() || self.rules.policy.compute_hard() {
            return bad("the policy in force places tasks for good");
        }
        let tasks = self.ledger.tasks_of(client).filter(|(_, held)| held.gpu != to);
        if !self.usable(client).contains(to) {
            return bad("that GPU is kept for others than its user: see `mgb quota`");
        }
        if !self.may_be_on(client, to) {
            return bad("its user may have no more GPUs: see `mgb quota`");
        }
        let may: Vec<TaskKey> = tasks
            .filter(|(_, held)| is_movable(held) && held.may_go.contains(to))
            .map(|(key, _)| key)
            .collect();
        let elsewhere = self.ledger.tasks_of(client).filter(|(_, held)| held.gpu != to);
        if may.len() < elsewhere.count() {
            return bad(if may.is_empty() {
                "none of its tasks can go on elsewhere: see `mgb explain` of it"
            } else {
                "not all of its tasks can go on elsewhere: see `mgb explain` of it"
            });
        }
        for &key in &may {
            let (wanted, room) = (self.cost_of_move(key, to), self.ledger.room(to));
            if wanted > room {
                let (wanted, room) = (Bytes(wanted), Bytes(room));
                return bad(&format!("it needs {wanted} there, and {room} are left"));
            }
        }
        self.wishes.retain(|wish| wish.key.client != client);
        self.wishes
            .extend(may.into_iter().map(|key| Wish { key, to, since: now }));
        Reply::Done
    }

    /// Orders what people want to move, as far as that is possible now.
    pub(super) fn grant_wishes(&mut self, snapshot: &Snapshot, now: Duration) {
        if self.wishes.is_empty() {
            return;
        }
        self.give_up_orders(now);
        for wish in std::mem::take(&mut self.wishes) {
            let Wish { key, to, since } = wish;
            let held = self.ledger.task(key).filter(|held| held.gpu != to);
            if held.is_none() || now.saturating_sub(since) > TRIED {
                continue;
            }
            let is_free = self.agent_of(key.client, snapshot, now).is_some() && !self.is_queued(key);
            if !is_free || self.order_move(key, to, now).is_err() {
                self.wishes.push(wish);
            }
        }
    }

    /// Whether a task that asks for all that it has may go on, on a GPU that is not drained.
    pub(super) fn may_go_elsewhere(&self, key: TaskKey, request: &Request) -> bool {
        let may = self
            .ledger
            .task(key)
            .filter(|held| held.reserved == 0 && !held.alone);
        let asked = GpuSet::from_bits(request.gpus);
        let others = may.map_or(GpuSet::EMPTY, |held| {
            held.may_go & asked & !GpuSet::of(held.gpu) & !self.closed()
        });
        request.flags & ELSEWHERE != 0 && self.balances() && !others.is_empty()
    }

    /// On a drained GPU: orders a task of the client to another one, if it has one that may go on there.
    pub(super) fn move_off(
        &mut self,
        client: ClientId,
        gpu: usize,
        covered: &[Option<u64>],
        snapshot: &Snapshot,
        now: Duration,
    ) -> bool {
        if !self.balances() || covered.len() != self.ledger.gpus().len() {
            return false;
        }
        let places = self.places(covered, snapshot);
        let here = self.ledger.tasks_of(client);
        let here = here.filter(|(key, held)| held.gpu == gpu && is_movable(held) && !self.is_queued(*key));
        let way = here
            .filter_map(|(key, held)| {
                let fits = |to: &usize| {
                    let is_open = *to != gpu && held.may_go.contains(to) && !places[*to].closed;
                    is_open && self.may_be_on(client, *to) && self.cost_of_move(key, *to) <= places[*to].room
                };
                let to = (0..places.len()).filter(fits).min_by_key(|to| places[*to].work)?;
                Some((key, to))
            })
            .next();
        way.is_some_and(|(key, to)| self.order_move(key, to, now).is_ok())
    }

    fn cost_of_move(&self, key: TaskKey, to: usize) -> u64 {
        self.ledger.cost_of_arrival(key, to).unwrap_or(u64::MAX)
    }

    fn movers(&self, snapshot: &Snapshot, now: Duration) -> Vec<Mover> {
        let mut movers = Vec::new();
        for (key, held) in self.ledger.tasks().filter(|(_, held)| is_movable(held)) {
            let mut own = self.ledger.tasks_of(key.client);
            // What work a process has on a GPU is known, not that of each task: one of several moves only to
            // make room.
            let is_only = own.all(|(other, there)| other == key || there.gpu != held.gpu);
            let agent = self.agent_of(key.client, snapshot, now);
            if agent.is_none()
                || held.reserved == 0
                || self.is_queued(key)
                || self.ledger.arrival(key).is_some()
            {
                continue;
            }
            let moves = self.moves.get(&key).copied().unwrap_or_default();
            let cost = |to: usize| {
                if held.may_go.contains(to) && self.may_be_on(key.client, to) {
                    self.cost_of_move(key, to)
                } else {
                    u64::MAX
                }
            };
            movers.push(Mover {
                key,
                gpu: held.gpu,
                bytes: held.reserved,
                work: if is_only {
                    work(snapshot, |seen| (seen.client, seen.gpu) == (key.client, held.gpu))
                } else {
                    0
                },
                stays: now.saturating_sub(held.granted.max(moves.last)),
                times: moves.times,
                costs: (0..self.ledger.gpus().len()).map(cost).collect(),
            });
        }
        movers
    }

    fn places(&self, covered: &[Option<u64>], snapshot: &Snapshot) -> Vec<Place> {
        let alone = Colocation::of(&self.ledger);
        let place = |gpu: usize| Place {
            room: self.room_to_begin(covered, gpu),
            work: work(snapshot, |seen| seen.gpu == gpu),
            closed: self.closed().contains(gpu)
                || !alone.on(gpu).alone.is_empty()
                || self.ledger.processes(gpu) >= self.rules.max_processes
                || self.ledger.arrivals().any(|(_, arrival)| arrival.gpu == gpu),
        };
        (0..self.ledger.gpus().len()).map(place).collect()
    }

    /// Another GPU with room for a task that asks for all that it has.
    pub(super) fn room_elsewhere(
        &self,
        waiting: &Waiting,
        covered: &[Option<u64>],
        colocation: &Colocation,
    ) -> Option<usize> {
        let held = self.ledger.task(waiting.key())?;
        if !self.may_go_elsewhere(waiting.key(), &waiting.request) {
            return None;
        }
        let may = held.may_go & GpuSet::from_bits(waiting.request.gpus);
        let fits = |to: &usize| {
            let cost = self
                .cost_of_move(waiting.key(), *to)
                .saturating_add(waiting.bytes);
            let is_open = *to != held.gpu
                && !self.closed().contains(to)
                && !colocation.is_closed(*to, waiting.client)
                && !self.is_claimed(*to, waiting.client);
            is_open
                && may.contains(to)
                && self.may_be_on(waiting.client, *to)
                && cost <= self.room_to_begin(covered, *to)
        };
        (0..self.ledger.gpus().len()).find(fits)
    }

    /// Grants room on another GPU to a task that has nothing where it was.
    pub(super) fn grant_elsewhere(
        &mut self,
        waiting: &Waiting,
        to: usize,
        covered: &mut [Option<u64>],
        now: Duration,
        answers: &mut Vec<Answer>,
    ) {
        let key = waiting.key();
        match self.ledger.relocate(key, to) {
            Ok((from, to)) => tracing::info!(
                client = key.client,
                task = key.task,
                from,
                to,
                "goes on elsewhere"
            ),
            Err(error) => {
                tracing::error!(%error, "the ledger refused a move that fits");
                return;
            }
        }
        let contexts = self.contexts_of(waiting.client);
        self.queue.has_contexts(waiting.client, contexts);
        self.count_move(key, now);
        self.counts.moved += 1;
        self.grant_growth(waiting, to, covered, now, answers);
    }
}

fn is_movable(held: &Holding) -> bool {
    !held.may_go.is_empty() && held.running && !held.alone && !held.whole_process
}
