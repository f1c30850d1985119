//! Moves tasks that may go on elsewhere: asks [`crate::balance`], and gives the orders.
//!
//! A task that moves is charged on both GPUs until its client says that it has arrived, or that the order is
//! over. A client that does not answer keeps both: its memory may be anywhere.

use std::time::Duration;

use mgb_probe::byte_size::Bytes;
use mgb_probe::wire::{Order, Reply, Request};

use super::Broker;
use crate::balance::{self, GpuLoad};
use crate::broker::answer::bad;
use crate::broker::books::is_movable;
use crate::broker::round::{Cover, Round, cost_of_move};
use crate::broker::snapshot::Snapshot;
use crate::client::ClientId;
use crate::eviction::Lack;
use crate::ledger::TaskKey;

impl Broker {
    /// Whether there is a task that may go on elsewhere: while nobody waits, [`Broker::even_out`] is called
    /// now and then.
    pub fn may_balance(&self) -> bool {
        let mut tasks = self.books.ledger.tasks();
        self.books.balances() && tasks.any(|(_, holding)| is_movable(holding))
    }

    /// Orders a task to another GPU where that evens the work out, while nobody waits.
    pub fn even_out(&mut self, snapshot: &Snapshot, now: Duration) {
        self.give_up_orders(now);
        let round = Round::new(snapshot, Cover::copy(snapshot), now);
        self.balance(&[], &round);
    }

    /// Orders a task to another GPU where that pays.
    pub(super) fn balance(&mut self, lacks: &[Lack], round: &Round<'_>) {
        if !self.books.balances() || !round.covers_all(&self.books.ledger) {
            return;
        }
        let movers = round.movers(&self.books, &self.queue, &self.accounts, &self.orders);
        if movers.is_empty() {
            return;
        }
        let places = round.places(&self.books);
        let moves = &mut self.orders.moves;
        let chosen = match self.books.rules.shuffles {
            Some(every) => moves.shuffled(&movers, &places, every, round.now),
            None => balance::choose(&movers, &places, lacks),
        };
        if moves.has_settled(chosen.as_ref(), round.now)
            && let Some(chosen) = chosen
        {
            // What does not fit was not chosen.
            let _ = self.order_move(chosen.key, chosen.to, round.now);
        }
    }

    /// How often tasks are moved at random.
    pub fn shuffles(&self) -> Option<Duration> {
        self.books.rules.shuffles.filter(|_| self.may_balance())
    }

    /// Has room ready for the task, and orders its client to bring it there.
    fn order_move(&mut self, key: TaskKey, to: usize, now: Duration) -> Result<(), String> {
        let Some(number) = self.orders.next_number(key.client) else {
            return Err("its process is gone".to_owned());
        };
        let uid = self.books.clients.user(key.client);
        if !self.accounts.may_be_on(uid, to) {
            return Err("its user may have no more GPUs".to_owned());
        }
        self.books
            .ledger
            .expect_arrival(key, to, number)
            .map_err(|error| error.to_string())?;
        self.note_contexts(key.client);
        let holding = self.books.ledger.task(key);
        let (gpu, bytes) = holding.map_or((0, 0), |holding| (holding.gpu as u32, holding.reserved));
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
        if self.queue.has(key) {
            return bad("the task waits to grow");
        }
        match self.books.ledger.arrive(key) {
            Ok((from, to)) => {
                let task = self.books.ledger.task(key);
                let bytes = task.map_or(0, |holding| holding.reserved);
                self.orders.moves.count(key, now);
                let counts = self.history.counts_mut();
                counts.moved += 1;
                counts.moved_bytes = counts.moved_bytes.saturating_add(bytes);
                tracing::info!(client = key.client, task = key.task, from, to, bytes, "moved");
                Reply::Done
            }
            Err(error) => bad(&error.to_string()),
        }
    }

    /// An order is over: a task that has not arrived by then stays where it is.
    pub(super) fn move_is_over(&mut self, client: ClientId, number: u64) {
        let is_its = |(key, order): &(TaskKey, u32)| key.client == client && u64::from(*order) == number;
        let arrivals = self.books.ledger.arrivals();
        let ordered = arrivals.map(|(key, arrival)| (key, arrival.order));
        let key = ordered.filter(is_its).map(|(key, _)| key).next();
        if let Some(key) = key {
            self.books.ledger.give_up_arrival(key);
            self.orders.moves.failed(key);
        }
    }

    /// A person wants a process to move to another GPU.
    pub(super) fn move_process(&mut self, request: &Request, now: Duration) -> Reply {
        let to = request.bytes as usize;
        let pid = u32::try_from(request.task).unwrap_or(0);
        let client = self.books.clients.of_pid(pid);
        let Some(client) = client.filter(|_| to < self.books.ledger.gpus().len()) else {
            return Reply::Unknown;
        };
        if let Some(reply) = self.may_not_move(client, to) {
            return reply;
        }
        match self.tasks_to_move(client, to) {
            Ok(tasks) => {
                self.orders.moves.wish(client, tasks, to, now);
                Reply::Done
            }
            Err(reply) => reply,
        }
    }

    /// The answer to who wants a client moved to a GPU where it cannot go.
    fn may_not_move(&self, client: ClientId, to: usize) -> Option<Reply> {
        let (books, uid) = (&self.books, self.books.clients.user(client));
        if self.is_drained(to) {
            return Some(bad("that GPU is drained"));
        }
        if books.control.closed().contains(to) {
            return Some(bad("the driver cannot reach that GPU"));
        }
        let mut tasks = books.ledger.tasks_of(client);
        if tasks.all(|(_, holding)| holding.gpu == to) {
            return Some(Reply::Unchanged);
        }
        if books.ledger.blind() || books.rules.policy.compute_hard() {
            return Some(bad("the policy in force places tasks for good"));
        }
        if !self.accounts.usable(uid).contains(to) {
            return Some(bad("that GPU is kept for others than its user: see `mgb quota`"));
        }
        if !self.accounts.may_be_on(uid, to) {
            return Some(bad("its user may have no more GPUs: see `mgb quota`"));
        }
        None
    }

    /// The client's tasks on other GPUs, if all can move to this one; or the answer why not.
    fn tasks_to_move(&self, client: ClientId, to: usize) -> Result<Vec<TaskKey>, Reply> {
        let elsewhere = || {
            let tasks = self.books.ledger.tasks_of(client);
            tasks.filter(|(_, holding)| holding.gpu != to)
        };
        let may: Vec<TaskKey> = elsewhere()
            .filter(|(_, holding)| is_movable(holding) && holding.may_go.contains(to))
            .map(|(key, _)| key)
            .collect();
        if may.len() < elsewhere().count() {
            return Err(bad(if may.is_empty() {
                "none of its tasks can go on elsewhere: see `mgb explain` of it"
            } else {
                "not all of its tasks can go on elsewhere: see `mgb explain` of it"
            }));
        }
        for &key in &may {
            let (wanted, room) = (cost_of_move(&self.books, key, to), self.books.ledger.room(to));
            if wanted > room {
                let (wanted, room) = (Bytes(wanted), Bytes(room));
                return Err(bad(&format!("it needs {wanted} there, and {room} are left")));
            }
        }
        Ok(may)
    }

    /// Orders what people want to move, as far as that is possible now.
    pub(super) fn grant_wishes(&mut self, round: &Round<'_>) {
        if !self.orders.moves.has_wishes() {
            return;
        }
        self.give_up_orders(round.now);
        for wish in self.orders.moves.take_wishes() {
            let (key, to) = (wish.key, wish.to);
            let holding = self.books.ledger.task(key).filter(|holding| holding.gpu != to);
            if holding.is_none() || wish.is_over(round.now) {
                continue;
            }
            let agent = self.orders.free_agent(key.client, round.snapshot, round.now);
            let is_free = agent.is_some() && !self.queue.has(key);
            if is_free && self.order_move(key, to, round.now).is_ok() {
                self.orders.moves.ordered(wish);
            } else {
                self.orders.moves.keep_wish(wish);
            }
        }
    }

    /// On a drained GPU: orders a task of the client to another one, if it has one that may go on there.
    pub(super) fn move_off(&mut self, client: ClientId, gpu: usize, round: &Round<'_>) -> bool {
        if !self.books.balances() || !round.covers_all(&self.books.ledger) {
            return false;
        }
        let places = round.places(&self.books);
        let here = self.books.ledger.tasks_of(client);
        let mut here =
            here.filter(|(key, holding)| holding.gpu == gpu && is_movable(holding) && !self.queue.has(*key));
        let Some((key, to)) = here.find_map(|(key, _)| Some((key, self.goal(key, &places)?))) else {
            return false;
        };
        drop(here);
        self.order_move(key, to, round.now).is_ok()
    }

    /// The GPU with the least work to which a task can move.
    fn goal(&self, key: TaskKey, places: &[GpuLoad]) -> Option<usize> {
        let holding = self.books.ledger.task(key)?;
        let uid = self.books.clients.user(key.client);
        let fits = |to: &usize| {
            let is_open = *to != holding.gpu && holding.may_go.contains(to) && !places[*to].closed;
            is_open
                && self.accounts.may_be_on(uid, *to)
                && cost_of_move(&self.books, key, *to) <= places[*to].room
        };
        (0..places.len()).filter(fits).min_by_key(|to| places[*to].work)
    }
}
