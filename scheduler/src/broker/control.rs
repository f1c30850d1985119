//! What people want of processes and GPUs: suspended processes have nothing on any GPU, and are granted
//! nothing; drained GPUs take nobody, and empty as those who are there go idle or end.
//!
//! Both are states, not events: they hold until a person ends them. A suspended process is forgotten with its
//! end, a job with that of its last process.

use std::time::Duration;

use mgb_probe::slurm_whole;
use mgb_probe::view::SuspendedView;
use mgb_probe::wire::{OF_JOB, Op, Reply, Request, WHOLE_JOB};

use super::ask::bad;
use super::suspended::Whom;
use super::{Broker, Client};
use crate::client::ClientId;

impl Broker {
    /// The client only looks, or speaks for a person.
    pub fn only_looks(&mut self, client: ClientId) {
        if let Some(entry) = self.clients.get_mut(&client) {
            entry.looks = true;
        }
    }

    fn since(&self, client: &Client) -> Option<Duration> {
        let since = self.suspended.since(client.pid, client.job);
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

    /// Whether a person has the GPU drained.
    pub fn is_drained(&self, gpu: usize) -> bool {
        self.drained & (1 << gpu) != 0
    }

    /// GPUs that take nobody: those that are drained, and those that the driver cannot reach.
    pub(super) fn closed(&self) -> u64 {
        self.drained | self.lost
    }

    /// Whether anything is kept here that a person wants and that would be lost with the broker.
    pub fn has_drained(&self) -> bool {
        self.drained != 0
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
                whole_job: self.suspended.0.contains_key(&Whom::Job(entry.job)),
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
            Op::Suspend => self.suspend(request, now),
            Op::Resume => self.resume(request),
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
        let uid = self.clients.get(&client).map_or(u32::MAX, |entry| entry.uid);
        if uid == 0 || uid == self.rules.admin {
            return None;
        }
        if matches!(request.op, Op::Drain | Op::EndDrain) {
            return Some("that is for the user who runs mgbd, and for root");
        }
        let whom = match request.op {
            Op::Move => Whom::Process(u32::try_from(request.task).ok()?),
            _ => self.whom(request)?,
        };
        let is_others = |entry: &Client| is(whom, entry) && entry.uid != uid;
        let others = self.clients.values().any(is_others);
        others.then_some("that belongs to another user")
    }

    /// Whom the request means; `None`: nobody here.
    fn whom(&self, request: &Request) -> Option<Whom> {
        let pid = u32::try_from(request.task);
        let whom = if request.flags & OF_JOB != 0 {
            Whom::Job(request.task).or_none()?
        } else {
            Whom::Process(pid.ok()?)
        };
        let entry = self.clients.values().find(|entry| is(whom, entry))?;
        if request.flags & WHOLE_JOB != 0 {
            return Whom::Job(entry.job).or_none();
        }
        Some(whom)
    }

    fn suspend(&mut self, request: &Request, now: Duration) -> Reply {
        let Some(whom) = self.whom(request) else {
            return Reply::Unknown;
        };
        if self.suspended.0.contains_key(&whom) {
            return Reply::Unchanged;
        }
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
        Reply::Done
    }

    fn resume(&mut self, request: &Request) -> Reply {
        let Some(whom) = self.whom(request) else {
            return Reply::Unknown;
        };
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
        let still = self.clients_of(whom).any(|client| self.is_suspended(client));
        tracing::info!(?whom, was, still, "resumed");
        if still {
            return bad("its whole job is suspended: resume it with --job");
        }
        if was { Reply::Done } else { Reply::Unchanged }
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
        let bit = 1u64 << gpu;
        self.drained = if drained { before | bit } else { before & !bit };
        if before == self.drained {
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
        let slurm = slurm_whole(entry.job).map(Whom::Job);
        for whom in [Whom::Process(entry.pid), Whom::Job(entry.job)]
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
    !client.looks && whom.is(client.pid, client.job)
}
