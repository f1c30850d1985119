//! The broker itself: calls its parts in order.

mod break_deadlock;
mod control;
mod eviction;
mod expectations;
mod expected_end;
mod gather;
mod grants;
mod journal;
mod leaving;
mod moving;
mod requests;
mod schedule_round;
mod suspend;
mod users;
mod views;
mod wait_reasons;

use std::time::Duration;

use mgb_probe::Gpu;
use mgb_probe::view::Counts;

use super::accounts::Accounts;
use super::answer::Answer;
use super::books::Books;
use super::history::{History, Remembered};
use super::jobs::Jobs;
use super::orders::{OrderTo, Orders};
use super::program::ProgramId;
use super::queue::RequestQueue;
use super::reserve::Reserve;
use super::rules::ServingRules;
use super::snapshot::Snapshot;
use super::turns::{self, Turns};
use crate::client::ClientId;
use crate::ledger::{Ledger, Reclaiming, TaskKey};

#[cfg(test)]
pub(super) use gather::GATHER_TIMEOUT_FACTOR;

/// The scheduler without clock, driver and sockets: it takes requests, keeps the queue and answers.
#[derive(Debug)]
pub struct Broker {
    pub(super) books: Books,
    pub(super) queue: RequestQueue,
    pub(super) reserve: Reserve,
    pub(super) turns: Turns,
    pub(super) accounts: Accounts,
    pub(super) jobs: Jobs,
    pub(super) orders: Orders,
    pub(super) history: History,
}

impl Broker {
    /// A broker over idle GPUs.
    pub fn new(gpus: Vec<Gpu>, rules: ServingRules) -> Broker {
        Broker {
            books: Books::new(gpus, rules),
            queue: RequestQueue::default(),
            reserve: Reserve::default(),
            turns: Turns::default(),
            accounts: Accounts::default(),
            jobs: Jobs::default(),
            orders: Orders::new(rules.copy_speed),
            history: History::default(),
        }
    }

    /// What every task and process holds.
    pub fn ledger(&self) -> &Ledger {
        &self.books.ledger
    }

    /// Totals of what was granted, refused, evicted and moved.
    pub fn counts(&self) -> Counts {
        self.history.counts()
    }

    /// Whether a request waits for an answer that [`Broker::serve`] gives.
    pub fn waiting(&self) -> bool {
        !self.queue.pending.is_empty() || self.queue.is_overdue() || !self.jobs.followers().is_empty()
    }

    /// Gives turns at the driver to waiting processes. Called after each event, and when
    /// [`Broker::next_turn_in`] says so.
    pub fn take_turns(&mut self, now: Duration) -> Vec<Answer> {
        let books = &self.books;
        let users = turns::TurnUsers {
            of: |client| books.clients.user(client),
            are_several: self.accounts.has_several_users(),
        };
        let has_task = |client| books.ledger.tasks_of(client).next().is_some();
        self.turns.next(now, has_task, &users)
    }

    /// How many processes wait for their turn at the driver.
    pub fn starting(&self) -> u32 {
        self.turns.waiting()
    }

    /// How long until the next turn if nothing happens; `None`: no process waits for one.
    pub fn next_turn_in(&self, now: Duration) -> Option<Duration> {
        self.turns.due(now)
    }

    /// The orders that were decided on since the last call.
    pub fn take_orders(&mut self) -> Vec<OrderTo> {
        self.orders.take_outgoing()
    }

    /// A client arrived. `client` is larger than all before it.
    pub fn arrive(&mut self, client: ClientId, pid: u32) {
        self.books.clients.arrive(client, pid);
        self.orders.arrive(client);
    }

    /// The client's process is this user's.
    pub fn belongs_to(&mut self, client: ClientId, uid: u32) {
        self.books.clients.belongs_to(client, uid);
    }

    /// What the client's process runs: what its tasks take is remembered for the next time.
    pub fn identify(&mut self, client: ClientId, program: ProgramId) {
        self.books.clients.identify(client, program);
    }

    /// The process belongs to a job; 0: to none.
    pub fn join(&mut self, client: ClientId, job: u64) {
        if let Some(job) = self.books.clients.join(client, job) {
            self.jobs.join(job, client);
        }
    }

    /// The client only looks, or speaks for a person. `administers`: the person's orders may be about
    /// everybody's programs.
    pub fn only_looks(&mut self, client: ClientId, administers: bool) {
        self.books.clients.only_observes(client, administers);
    }

    /// The client's channel is gone: it waits for nothing any more. What it
    /// holds stays charged as long as its process lives.
    pub fn hang_up(&mut self, client: ClientId) {
        self.turns.gone(client);
        self.jobs.hang_up(client);
        self.queue.hang_up(client);
        self.accounts.hang_up(client);
    }

    /// The client's process died; returns what is to be reclaimed.
    pub fn die(&mut self, client: ClientId, now: Duration) -> Vec<Reclaiming> {
        self.hang_up(client);
        for kind in self.history.process_ends(&self.books, client, now) {
            self.relearn(kind);
        }
        self.jobs.leave(client);
        let uid = self.books.clients.user(client);
        if let Some(gone) = self.books.clients.remove(client) {
            if self.books.clients.of_pid(gone.pid()).is_none() {
                self.history.run_ends(gone.pid(), now);
            }
            self.books.control.forget(&gone, &self.books.clients);
        }
        self.orders.remove(client, self.history.counts_mut());
        self.reclaim(client, uid, false, now)
    }

    /// A process that held something was killed.
    pub fn count_killed(&mut self) {
        self.history.counts_mut().died_holding += 1;
    }

    /// The client's process lives on as another program, which connected again:
    /// what the old program held is to be reclaimed, except tasks that are the
    /// process.
    pub fn exec(&mut self, client: ClientId, now: Duration) -> Vec<Reclaiming> {
        self.hang_up(client);
        self.history.program_ends(&self.books, client);
        self.jobs.leave(client);
        let uid = self.books.clients.user(client);
        self.reclaim(client, uid, true, now)
    }

    fn reclaim(&mut self, client: ClientId, uid: u32, lives: bool, now: Duration) -> Vec<Reclaiming> {
        let lost = self.books.ledger.die(client, lives, now);
        self.accounts.charge_reclaiming(uid, &lost);
        let ledger = &self.books.ledger;
        let stays = |key: &TaskKey| key.client != client || ledger.task(*key).is_some();
        self.queue.touches.retain(stays);
        self.orders.moves.retain(stays);
        lost
    }

    /// When a task on the GPU, or its process, ended last; `None`: none has.
    pub fn work_ended(&self, gpu: usize) -> Option<Duration> {
        self.history.work_ended(gpu)
    }

    /// A lease was taken away: the task is over, and held nothing.
    pub fn take_lease(&mut self, key: TaskKey) {
        self.history.forget(key);
        if self.books.ledger.end(key, 0).is_ok() {
            self.forget_if_over(key);
        }
    }

    /// Drops what is kept of a task that has left the ledger.
    fn forget_if_over(&mut self, key: TaskKey) {
        if self.books.ledger.task(key).is_none() {
            self.orders.moves.forget(key);
            self.queue.task_is_over(key);
        }
    }

    /// The driver shows that room free.
    pub fn freed(&mut self, id: u64) -> Option<Reclaiming> {
        self.accounts.freed(id);
        self.books.ledger.freed(id)
    }

    /// The driver shows that the client's process has so many bytes on the GPU beside its tasks and an
    /// ordinary context.
    pub fn has_overhead(&mut self, client: ClientId, gpu: usize, bytes: u64) {
        self.books.ledger.has_taken(client, gpu, bytes);
        self.history.has_overhead(&self.books, client, bytes);
    }

    /// What processes have done lately: how far their tasks have come. To be told of each sample.
    pub fn saw_work(&mut self, snapshot: &Snapshot, now: Duration) {
        self.history.saw_work(&self.books, snapshot, now);
    }

    /// The rules by which it serves are others from the next round on.
    pub fn change_rules(&mut self, change: impl FnOnce(&mut ServingRules)) {
        change(&mut self.books.rules);
    }

    /// Begins with what an earlier broker remembered.
    pub fn recall(&mut self, remembered: &Remembered) {
        self.history.recall(remembered);
    }

    /// Whether something was learned since it was last asked what is remembered.
    pub fn has_learned(&self) -> bool {
        self.history.has_learned()
    }

    /// What is remembered now.
    pub fn remembered(&mut self) -> Remembered {
        self.history.remembered()
    }
}
