//! What the broker does for the processes of a job ([`super::jobs`]): the first is placed as any other, and
//! those that follow are told its order.

use std::time::Duration;

use mgb_probe::wire::{FIRST, NUMBERED, Reply, Request};

use super::held::Why;
use super::jobs::{Follower, JobOfUser, Order, Part};
use super::waiting::Waiting;
use super::{Answer, Broker, Client};
use crate::client::ClientId;
use crate::ledger::TaskKey;

impl Broker {
    /// The process belongs to a job; 0: to none.
    pub fn join(&mut self, client: ClientId, job: u64) {
        if let Some(entry) = self.clients.get_mut(&client) {
            entry.job = job;
            self.places.join(entry.job_of_user(), client);
        }
    }

    /// The first GPU of a job and the one whose place it has, by their numbers; `None` for the number 0, of
    /// none.
    pub fn exchanged(&self, job: JobOfUser) -> Option<[u32; 2]> {
        let order = self.jobs.ordered(job)?;
        Some([order.first, order.numbering.gpu(order.first)])
    }

    /// What the numbers of a job stand for; nothing before it has a GPU, nor for the number 0, of none.
    pub fn numbering(&self, job: JobOfUser) -> Vec<u32> {
        let order = self.jobs.ordered(job);
        order.map_or_else(Vec::new, |order| order.numbering.first(self.ledger.gpus().len()))
    }

    /// The process, and those that have its job's order with it.
    pub(super) fn kin(&self, client: ClientId) -> Vec<ClientId> {
        let job = self.clients.get(&client).map_or((0, 0), Client::job_of_user);
        let members = self.jobs.members(job).filter(|members| members.contains(&client));
        members.map_or_else(|| vec![client], |members| members.iter().copied().collect())
    }

    /// The job that the request is to get its order from; `None`: it asks for none, or its process has no
    /// job.
    fn job_of(&self, client: ClientId, request: &Request) -> Option<JobOfUser> {
        let entry = self.clients.get(&client)?;
        (entry.job != 0 && request.flags & FIRST != 0).then(|| entry.job_of_user())
    }

    /// Takes a request of a process that is not the first of its job: it waits, or is answered.
    pub(super) fn follow(&mut self, key: TaskKey, cell: usize, request: &Request, now: Duration) -> Follow {
        let client = key.client;
        let Some(job) = self.job_of(client, request) else {
            return Follow::IsPlaced;
        };
        match self.jobs.part(job, client) {
            Part::First => Follow::IsPlaced,
            Part::Ordered(order) => Follow::Answered(reply(order, request)),
            Part::Waits => {
                self.jobs.follow(Follower {
                    job,
                    client,
                    cell,
                    request: *request,
                    since: now,
                });
                Follow::Waits
            }
        }
    }

    /// A request enters the queue, perhaps that of a job's first process.
    pub(super) fn lead(&mut self, key: TaskKey, request: &Request) {
        if let Some(job) = self.job_of(key.client, request) {
            self.jobs.lead(job, key);
        }
    }

    /// A process's first task was granted a GPU, perhaps that of a job's first process: who waits for its
    /// order gets it.
    pub(super) fn order(&mut self, waiting: &Waiting, order: Order, answers: &mut Vec<Answer>) {
        let Some(job) = self.job_of(waiting.client, &waiting.request) else {
            return;
        };
        let followers = self.jobs.order(job, waiting.client, order);
        answers.extend(followers.into_iter().map(|follower| Answer {
            client: follower.client,
            cell: follower.cell,
            reply: reply(order, &follower.request),
        }));
    }

    /// Where a job's first process waits no more and was not placed, the next one is the first.
    pub(super) fn replace_leaders(&mut self, now: Duration) {
        let (queue, held) = (&self.queue, &self.held);
        let over_quota = |key| {
            held.iter().any(|held| {
                held.key() == key && matches!(held.why, Why::Quota(..) | Why::Places | Why::OthersGpus)
            })
        };
        for follower in self.jobs.replace_leaders(|key| queue.has(key) || over_quota(key)) {
            let (client, cell) = (follower.client, follower.cell);
            if let Some(reply) = self.request(client, cell, follower.request, now) {
                self.overdue.push(Answer { client, cell, reply });
            }
        }
    }
}

/// What became of a request.
pub(super) enum Follow {
    /// It is to be placed.
    IsPlaced,
    /// It waits for the order.
    Waits,
    /// The order is known.
    Answered(Reply),
}

/// The order, as the process that asks understands it.
fn reply(order: Order, request: &Request) -> Reply {
    if request.flags & NUMBERED != 0 {
        return Reply::Numbered(order.numbering);
    }
    Reply::Ordered {
        from: order.first,
        to: order.numbering.gpu(order.first),
    }
}
