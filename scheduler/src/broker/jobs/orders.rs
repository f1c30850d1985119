//! JobOrders: the processes that one `mgb run` started have the same GPUs under the same numbers, since they share
//! memory by them. The first that begins is placed by the policy, and what its further numbers stand for is
//! decided with that ([`super::numbering`]), for it and for those that follow, which are told so. A process
//! that comes while the first still waits is answered once that is placed.
//!
//! An order ends with the last process that has it. A job's number is what its processes say, and Slurm's are
//! public: so a job is known by its user with it, whom the kernel names, and nobody has a part in a job of
//! another user.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::Numbering;
use mgb_probe::wire::Request;

use crate::broker::clients::JobOfUser;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;

/// The order of a job's devices: what its numbers stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) struct JobOrder {
    /// The number that its first process counts first.
    pub(in crate::broker) first: u32,
    /// The GPUs that this process sees: numbered among themselves.
    pub(in crate::broker) gpus: GpuSet,
    /// The GPUs that the numbers stand for.
    pub(in crate::broker) numbering: Numbering,
}

/// Positions that are told apart by how much they are expected to be used.
const MAX_POSITIONS: u32 = 15;

impl JobOrder {
    /// The numbers in the order in which programs use them.
    pub(super) fn numbers(first: u32, gpus: GpuSet) -> Vec<u32> {
        let others = gpus.iter().map(|gpu| gpu as u32).filter(|gpu| *gpu != first);
        std::iter::once(first).chain(others).collect()
    }

    /// How much the job is expected to use a GPU beside its first one: most programs use few.
    fn expects(&self, gpu: usize) -> u32 {
        let numbers = JobOrder::numbers(self.first, self.gpus);
        let its = |number: &u32| self.numbering.gpu(*number) as usize == gpu;
        match numbers.iter().position(its) {
            None | Some(0) => 0,
            Some(at) => 1 << MAX_POSITIONS.saturating_sub(at as u32),
        }
    }
}

/// A request that waits for the order of its job.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Follower {
    pub(in crate::broker) job: JobOfUser,
    pub(in crate::broker) client: ClientId,
    pub(in crate::broker) cell: usize,
    pub(in crate::broker) request: Request,
    pub(in crate::broker) since: Duration,
}

#[derive(Debug)]
enum JobOrderState {
    /// This task is the first, and waits.
    Waits(TaskKey),
    /// The order, and the processes that have it.
    Ordered(JobOrder, BTreeSet<ClientId>),
}

/// What a process is to its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobRole {
    /// The process is the first of its job.
    First,
    /// Another one is the first, and waits.
    Waits,
    /// The process has this order now.
    Ordered(JobOrder),
}

/// All jobs of which a process has begun, or waits to begin.
#[derive(Debug, Default)]
pub(super) struct JobOrders {
    jobs: BTreeMap<JobOfUser, JobOrderState>,
    followers: Vec<Follower>,
    /// Whether an order came or ended since it was last asked.
    changed: bool,
}

impl JobOrders {
    /// A process of the job begins.
    pub(super) fn part(&mut self, job: JobOfUser, client: ClientId) -> JobRole {
        match self.jobs.get_mut(&job) {
            None => JobRole::First,
            Some(JobOrderState::Waits(_)) => JobRole::Waits,
            Some(JobOrderState::Ordered(order, members)) => {
                members.insert(client);
                JobRole::Ordered(*order)
            }
        }
    }

    /// The task of the job's first process waits.
    pub(super) fn lead(&mut self, job: JobOfUser, key: TaskKey) {
        self.jobs.insert(job, JobOrderState::Waits(key));
    }

    /// A request waits for the order.
    pub(super) fn follow(&mut self, follower: Follower) {
        self.followers.push(follower);
    }

    /// The requests that wait for an order.
    pub(super) fn followers(&self) -> &[Follower] {
        &self.followers
    }

    /// The first process was placed. Returns who waited for that.
    pub(super) fn order(&mut self, job: JobOfUser, client: ClientId, order: JobOrder) -> Vec<Follower> {
        let is_its = |follower: &mut Follower| follower.job == job;
        let followers: Vec<Follower> = self.followers.extract_if(.., is_its).collect();
        self.changed = true;
        let members = followers.iter().map(|follower| follower.client).chain([client]);
        self.jobs
            .insert(job, JobOrderState::Ordered(order, members.collect()));
        followers
    }

    /// The job's order, once there is one.
    pub(super) fn ordered(&self, job: JobOfUser) -> Option<JobOrder> {
        match self.jobs.get(&job)? {
            JobOrderState::Waits(_) => None,
            JobOrderState::Ordered(order, _) => Some(*order),
        }
    }

    /// The orders of all jobs that have one.
    pub(super) fn orders(&self) -> impl Iterator<Item = (JobOfUser, JobOrder)> + '_ {
        self.jobs.iter().filter_map(|(job, is)| match is {
            JobOrderState::Waits(_) => None,
            JobOrderState::Ordered(order, _) => Some((*job, *order)),
        })
    }

    /// How much all jobs together are expected to use a GPU beside their first ones.
    pub(super) fn expect(&self, gpu: usize) -> u32 {
        let all = self.orders().map(|(_, order)| order.expects(gpu));
        all.fold(0, u32::saturating_add)
    }

    /// Whether an order came or ended since this was last called.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// An order of an earlier broker's, as long as a process has it.
    pub(super) fn bring_in(&mut self, job: JobOfUser, order: JobOrder, members: BTreeSet<ClientId>) {
        if !members.is_empty() {
            self.jobs.insert(job, JobOrderState::Ordered(order, members));
        }
    }

    /// The processes that have the job's order.
    pub(super) fn members(&self, job: JobOfUser) -> Option<&BTreeSet<ClientId>> {
        match self.jobs.get(&job)? {
            JobOrderState::Waits(_) => None,
            JobOrderState::Ordered(_, members) => Some(members),
        }
    }

    /// Forgets first processes that wait no more and were not placed. Returns who waited for them.
    pub(super) fn replace_leaders(&mut self, waits: impl Fn(TaskKey) -> bool) -> Vec<Follower> {
        self.jobs.retain(|_, job| match job {
            JobOrderState::Waits(key) => waits(*key),
            JobOrderState::Ordered(..) => true,
        });
        let jobs = &self.jobs;
        let is_left = |follower: &mut Follower| !jobs.contains_key(&follower.job);
        self.followers.extract_if(.., is_left).collect()
    }

    /// A task's request does not wait for the order any more; its cell.
    pub(super) fn take_follower(&mut self, key: TaskKey) -> Vec<usize> {
        let is_its =
            |follower: &mut Follower| follower.client == key.client && follower.request.task == key.task;
        self.followers
            .extract_if(.., is_its)
            .map(|follower| follower.cell)
            .collect()
    }

    /// The request of a client's cell waits no more.
    pub(super) fn drop_follower(&mut self, client: ClientId, cell: usize) {
        self.followers
            .retain(|follower| (follower.client, follower.cell) != (client, cell));
    }

    /// The client asks for nothing any more.
    pub(super) fn hang_up(&mut self, client: ClientId) {
        self.followers.retain(|follower| follower.client != client);
    }

    /// The process is gone, or another program now.
    pub(super) fn leave(&mut self, client: ClientId) {
        self.jobs.retain(|_, job| match job {
            JobOrderState::Waits(key) => key.client != client,
            JobOrderState::Ordered(_, members) => {
                members.remove(&client);
                self.changed |= members.is_empty();
                !members.is_empty()
            }
        });
    }
}
