//! What people want of processes and GPUs: suspended processes have nothing on any GPU, and are granted
//! nothing; drained GPUs take nobody, and empty as those who are there go idle or end.
//!
//! Both are states, not events: they hold until a person ends them. A suspended process is forgotten with its
//! end, a job with that of its last process.

use std::collections::BTreeSet;
use std::time::Duration;

use mgb_probe::view::SuspendedView;
use mgb_probe::wire::{OF_JOB, Op, Reply, Request, WHOLE_JOB};

use super::ask::bad;
use super::suspended::{Whom, whole};
use super::{Broker, Client};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;

impl Broker {
    /// The client only looks, or speaks for a person. `administers`: the person's orders may be about
    /// everybody's programs.
    pub fn only_looks(&mut self, client: ClientId, administers: bool) {
        if let Some(entry) = self.clients.get_mut(&client) {
            entry.looks = true;
            entry.administers = administers;
        }
    }

    fn since(&self, client: &Client) -> Option<Duration> {
        let since = self.suspended.since(client.pid, client.job_of_user());
        since.filter(|_| !client.looks)
    }

    /// Whether a person has suspended the client's process.
    pub(super) fn is_suspended(&self, client: ClientId) -> bool {
        if self.suspended.is_empty() {
            return false;
        }
        let entry = self.clients.get(&client);
        entry.is_some_and(|entry| self.since(entry).is_some())
    }

    /// Whether the GPU is drained: a person wants it, or it fails.
    pub fn is_drained(&self, gpu: usize) -> bool {
        self.drained.contains(gpu)
    }

    /// GPUs that take nobody: those that are drained, and those that the driver cannot reach.
    pub(super) fn closed(&self) -> GpuSet {
        self.drained | self.lost
    }

    /// Whether anything is kept here that a person wants and that would be lost with the broker.
    pub fn has_drained(&self) -> bool {
        !self.drained.is_empty()
    }

    /// The processes that are suspended, for people.
    pub fn suspended_views(&self, now: Duration) -> Vec<SuspendedView> {
        if self.suspended.is_empty() {
            return Vec::new();
        }
        let view = |(&client, entry): (&ClientId, &Client)| {
            let since = self.since(entry)?;
            let mut evicted = vec![0; self.ledger.gpus().len()];
            for (_, held) in self.ledger.tasks_of(client) {
                evicted[held.gpu] += held.evicted;
            }
            Some(SuspendedView {
                pid: entry.pid,
                uid: entry.uid,
                job: (entry.job != 0).then(|| format!("{:016x}", entry.job)),
                whole_job: self.suspended.0.contains_key(&Whom::Job(entry.job_of_user())),
                age_ms: now.saturating_sub(since).as_millis() as u64,
                evicted_bytes: evicted,
            })
        };
        self.clients.iter().filter_map(view).collect()
    }

    /// Does what a person wants.
    pub(super) fn control(&mut self, client: ClientId, request: &Request, now: Duration) -> Reply {
        if self.clients.get(&client).is_none_or(|entry| !entry.looks) {
            return bad("a program cannot ask for that");
        }
        if let Some(why) = self.may_not(client, request) {
            return bad(why);
        }
        let reply = match request.op {
            Op::Suspend => self.suspend(client, request, now),
            Op::Resume => self.resume(client, request),
            Op::Drain => self.drain(request.task, true),
            Op::EndDrain => self.drain(request.task, false),
            Op::Move => self.move_process(request, now),
            _ => bad("that is no order of a person"),
        };
        self.standing_changed |= reply == Reply::Done;
        // At once, so that whoever looks next sees who is held back, and who is let go is served.
        self.hold_back(now);
        reply
    }

    /// Why a client's user may not give this order; `None`: he may.
    fn may_not(&self, client: ClientId, request: &Request) -> Option<&'static str> {
        if self.administers(client) {
            return None;
        }
        let uid = self.clients.get(&client).map_or(u32::MAX, |entry| entry.uid);
        if matches!(request.op, Op::Drain | Op::EndDrain) {
            return Some("only root and mgbd's user may do that, outside of containers");
        }
        if request.flags & OF_JOB != 0 && request.op != Op::Move {
            // Of that number only the user's own job is meant.
            return None;
        }
        let whom = Whom::Process(u32::try_from(request.task).ok()?);
        let is_others = |entry: &Client| is(whom, entry) && entry.uid != uid;
        let others = self.clients.values().any(is_others);
        others.then_some("that belongs to another user")
    }

    /// Whether a client's orders may be about everybody's programs.
    pub fn administers(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|entry| entry.administers)
    }

    /// Whom the request means, as far as they are here: a process, or a job. A number alone means the job of
    /// the client's own user; from who administers the node that of the user it names ([`OF_JOB`]), or of
    /// any.
    fn whoms(&self, client: ClientId, request: &Request) -> BTreeSet<Whom> {
        let mut all = self.clients.values().filter(|entry| !entry.looks);
        if request.flags & OF_JOB != 0 {
            let user = match self.clients.get(&client) {
                Some(entry) if !self.administers(client) => Some(entry.uid),
                _ => request
                    .bytes
                    .checked_sub(1)
                    .and_then(|uid| u32::try_from(uid).ok()),
            };
            let users = all.map(|entry| (entry, entry.uid));
            let users = users.filter(|(_, uid)| user.is_none_or(|user| user == *uid));
            return users
                .map(|(entry, uid)| (entry, Whom::Job((uid, request.task))))
                .filter(|(entry, whom)| is(*whom, entry))
                .filter_map(|(_, whom)| whom.or_none())
                .collect();
        }
        let Ok(pid) = u32::try_from(request.task) else {
            return BTreeSet::new();
        };
        let found = all.find(|entry| entry.pid == pid);
        let whom = found.and_then(|entry| match request.flags & WHOLE_JOB {
            0 => Some(Whom::Process(pid)),
            _ => Whom::Job(entry.job_of_user()).or_none(),
        });
        whom.into_iter().collect()
    }

    fn suspend(&mut self, client: ClientId, request: &Request, now: Duration) -> Reply {
        let whoms = self.whoms(client, request);
        if whoms.is_empty() {
            return Reply::Unknown;
        }
        let mut reply = Reply::Unchanged;
        for whom in whoms {
            if !self.suspended.0.contains_key(&whom) {
                self.suspend_all_of(whom, now);
                reply = Reply::Done;
            }
        }
        reply
    }

    fn suspend_all_of(&mut self, whom: Whom, now: Duration) {
        tracing::info!(?whom, "suspended");
        self.suspended.0.insert(whom, now);
        for entry in self.clients.values_mut().filter(|entry| is(whom, entry)) {
            // What came of orders before says nothing of this one.
            entry.agent.not_before = now;
            entry.agent.in_vain = 0;
        }
        // Nothing is kept for who is to have nothing.
        let members: Vec<ClientId> = self.clients_of(whom).collect();
        for client in members {
            for gpu in 0..self.ledger.gpus().len() {
                self.ledger.forgo(gpu, Some(client));
            }
        }
    }

    fn resume(&mut self, client: ClientId, request: &Request) -> Reply {
        let whoms = self.whoms(client, request);
        if whoms.is_empty() {
            return Reply::Unknown;
        }
        let (mut was, mut still) = (false, false);
        for whom in whoms {
            was |= self.resume_all_of(whom);
            still |= self.clients_of(whom).any(|client| self.is_suspended(client));
            tracing::info!(?whom, was, still, "resumed");
        }
        if still {
            return bad("its whole job is suspended: resume it with --job");
        }
        if was { Reply::Done } else { Reply::Unchanged }
    }

    /// Whether they were suspended.
    fn resume_all_of(&mut self, whom: Whom) -> bool {
        let mut was = self.suspended.0.remove(&whom).is_some();
        if let Whom::Job(_) = whom {
            let pids: Vec<u32> = self
                .clients_of(whom)
                .map(|client| self.clients[&client].pid)
                .collect();
            for pid in pids {
                was |= self.suspended.0.remove(&Whom::Process(pid)).is_some();
            }
        }
        was
    }

    fn clients_of(&self, whom: Whom) -> impl Iterator<Item = ClientId> {
        let clients = self.clients.iter();
        clients
            .filter(move |(_, entry)| is(whom, entry))
            .map(|(client, _)| *client)
    }

    /// Has a GPU drained, or used again.
    fn drain(&mut self, gpu: u64, drained: bool) -> Reply {
        if gpu >= self.ledger.gpus().len() as u64 {
            return Reply::Unknown;
        }
        let before = self.drained;
        let gpu = gpu as usize;
        if drained {
            self.drained.insert(gpu);
        } else {
            self.drained.remove(gpu);
        }
        let was_failing = !drained && self.forgives(gpu);
        if before == self.drained && !was_failing {
            return Reply::Unchanged;
        }
        tracing::info!(gpu, drained, "drain");
        Reply::Done
    }

    /// A process has ended, and `client` with it.
    pub(super) fn forget_suspended(&mut self, client: ClientId) {
        let Some(entry) = self.clients.remove(&client) else {
            return;
        };
        let slurm = whole(entry.job_of_user()).map(Whom::Job);
        for whom in [Whom::Process(entry.pid), Whom::Job(entry.job_of_user())]
            .into_iter()
            .chain(slurm)
        {
            if !self.clients.values().any(|other| is(whom, other)) {
                self.standing_changed |= self.suspended.0.remove(&whom).is_some();
            }
        }
    }
}

/// Whether the client is one that is meant: who only looks never is.
pub(super) fn is(whom: Whom, client: &Client) -> bool {
    !client.looks && whom.is(client.pid, client.job_of_user())
}
