//! Jobs: which GPUs the processes of a job have, and under which numbers ([`orders`]); the first is placed as any other
//! process, and those that follow are told its order.

mod numbering;
mod orders;
mod placements;
mod placing;

use std::time::Duration;

use mgb_probe::Numbering;
use mgb_probe::wire::{FIRST, NUMBERED, Reply, Request};

use super::answer::Answer;
use super::clients::{ClientState, Clients, JobOfUser};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::journal::{Numbered, Standing};
use crate::ledger::TaskKey;

pub(super) use orders::{Follower, JobOrder};
use orders::{JobOrders, JobRole};
use placements::Placements;
pub(super) use placing::Placing;

/// The orders of jobs, and the GPUs of jobs that use several.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    orders: JobOrders,
    placements: Placements,
}

impl Jobs {
    /// The process belongs to the job.
    pub(super) fn join(&mut self, job: JobOfUser, client: ClientId) {
        self.placements.join(job, client);
    }

    /// The process is gone, or another program now.
    pub(super) fn leave(&mut self, client: ClientId) {
        self.orders.leave(client);
        self.placements.leave(client);
    }

    /// The client asks for nothing any more.
    pub(super) fn hang_up(&mut self, client: ClientId) {
        self.orders.hang_up(client);
    }

    /// The requests that wait for an order.
    pub(super) fn followers(&self) -> &[Follower] {
        self.orders.followers()
    }

    /// A task's request does not wait for the order any more; its cell.
    pub(super) fn withdraw(&mut self, key: TaskKey) -> Vec<usize> {
        self.orders.take_follower(key)
    }

    /// The request of a client's cell waits for no order any more.
    pub(super) fn remove(&mut self, client: ClientId, cell: usize) {
        self.orders.drop_follower(client, cell);
    }

    /// The first GPU of a job and the one whose place it has, by their numbers; `None` for the number 0, of
    /// none.
    pub(super) fn exchanged(&self, job: JobOfUser) -> Option<[u32; 2]> {
        let order = self.orders.ordered(job)?;
        Some([order.first, order.numbering.gpu(order.first)])
    }

    /// What the numbers of a job stand for on a node of so many GPUs; nothing before it has a GPU, nor for the number
    /// 0, of none.
    pub(super) fn numbering(&self, job: JobOfUser, gpus: usize) -> Vec<u32> {
        let order = self.orders.ordered(job);
        order.map_or_else(Vec::new, |order| order.numbering.first(gpus))
    }

    /// The process, and those that have its job's order with it.
    pub(super) fn kin(&self, clients: &Clients, client: ClientId) -> Vec<ClientId> {
        let job = clients.get(client).map_or((0, 0), ClientState::job_of_user);
        let members = self.orders.members(job);
        let members = members.filter(|members| members.contains(&client));
        members.map_or_else(|| vec![client], |members| members.iter().copied().collect())
    }

    /// Takes a request of a process that is not the first of its job: it waits, or is answered.
    pub(super) fn follow(
        &mut self,
        clients: &Clients,
        key: TaskKey,
        cell: usize,
        request: &Request,
        now: Duration,
    ) -> Follow {
        let client = key.client;
        let Some(job) = job_of(clients, client, request) else {
            return Follow::IsPlaced;
        };
        match self.orders.part(job, client) {
            JobRole::First => Follow::IsPlaced,
            JobRole::Ordered(order) => Follow::Answered(reply(order, request)),
            JobRole::Waits => {
                self.orders.follow(Follower {
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
    pub(super) fn lead(&mut self, clients: &Clients, key: TaskKey, request: &Request) {
        if let Some(job) = job_of(clients, key.client, request) {
            self.orders.lead(job, key);
        }
    }

    /// A process's first task was granted a GPU, perhaps that of a job's first process: the answers to those that wait
    /// for its order.
    pub(super) fn order(
        &mut self,
        clients: &Clients,
        client: ClientId,
        request: &Request,
        order: JobOrder,
    ) -> Vec<Answer> {
        let Some(job) = job_of(clients, client, request) else {
            return Vec::new();
        };
        let followers = self.orders.order(job, client, order).into_iter();
        let answer = |follower: Follower| Answer {
            client: follower.client,
            cell: follower.cell,
            reply: reply(order, &follower.request),
        };
        followers.map(answer).collect()
    }

    /// Forgets first processes that wait no more and were not placed. Returns the requests that waited for them.
    pub(super) fn replace_leaders(&mut self, waits: impl Fn(TaskKey) -> bool) -> Vec<Follower> {
        self.orders.replace_leaders(waits)
    }

    /// Whether anything that is written down has changed since this was last called.
    pub(super) fn take_changed(&mut self) -> bool {
        self.orders.take_changed() | self.placements.take_changed()
    }

    /// Writes down what jobs on a node of so many GPUs were told.
    pub(super) fn write(&self, standing: &mut Standing, gpus: usize) {
        let exchanged = |(of, order): (JobOfUser, JobOrder)| {
            let (_, job) = of;
            (job, order.first, order.numbering.gpu(order.first))
        };
        let numbered = |((uid, job), order): (JobOfUser, JobOrder)| Numbered {
            uid: Some(uid),
            job,
            first: order.first,
            gpus: order.gpus.bits(),
            stands_for: order.numbering.first(gpus),
        };
        standing.exchanged = self.orders.orders().map(exchanged).collect();
        standing.numbered = self.orders.orders().map(numbered).collect();
        standing.placed = self.placements.all();
    }

    /// What jobs were told by an earlier broker, as far as their processes are here still.
    pub(super) fn bring_in(&mut self, standing: &Standing, clients: &Clients) {
        for numbered in &standing.numbered {
            if let Some(numbering) = Numbering::of(&numbered.stands_for) {
                let order = JobOrder {
                    first: numbered.first,
                    gpus: GpuSet::from_bits(numbered.gpus),
                    numbering,
                };
                for uid in clients.users_of_job(numbered.job, numbered.uid) {
                    self.bring_in_order((uid, numbered.job), order, clients);
                }
            }
        }
        for &(job, first, gpu) in &standing.exchanged {
            // Of an mgbd that knew no numberings.
            if standing.numbered.is_empty() {
                let order = JobOrder {
                    first,
                    gpus: GpuSet::EMPTY,
                    numbering: Numbering::exchanging(first, gpu),
                };
                for uid in clients.users_of_job(job, None) {
                    self.bring_in_order((uid, job), order, clients);
                }
            }
        }
        self.placements
            .bring_in(&standing.placed, |client| clients.has(client));
    }

    fn bring_in_order(&mut self, job: JobOfUser, order: JobOrder, clients: &Clients) {
        let members = clients.programs().filter(|(_, entry)| entry.job_of_user() == job);
        let members = members.map(|(client, _)| client).collect();
        self.orders.bring_in(job, order, members);
    }
}

/// The job that the request is to get its order from; `None`: it asks for none, or its process has no
/// job.
fn job_of(clients: &Clients, client: ClientId, request: &Request) -> Option<JobOfUser> {
    let entry = clients.get(client)?;
    (entry.job() != 0 && request.flags & FIRST != 0).then(|| entry.job_of_user())
}

/// What becomes of a request to begin, as part of a job.
#[derive(Debug)]
pub(super) enum Follow {
    /// The request is to be placed by the policy.
    IsPlaced,
    /// The request waits for the order of its job.
    Waits,
    /// The order of its job is known, and this is the answer.
    Answered(Reply),
}

/// The order, as the process that asks understands it.
fn reply(order: JobOrder, request: &Request) -> Reply {
    if request.flags & NUMBERED != 0 {
        return Reply::Numbered(order.numbering);
    }
    Reply::Ordered {
        from: order.first,
        to: order.numbering.gpu(order.first),
    }
}

#[cfg(test)]
mod tests;
