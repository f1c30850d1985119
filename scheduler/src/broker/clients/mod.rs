//! The clients: processes that are connected, and those that are gone but whose GPU memory is not free yet.

mod client;
mod subject;

use std::collections::{BTreeMap, BTreeSet};

use mgb_probe::slurm_job;
use mgb_probe::wire::{OF_JOB, Op, Request, WHOLE_JOB};

use super::program::ProgramId;
use crate::client::ClientId;

pub(super) use client::ClientState;
pub use client::JobOfUser;
pub(super) use subject::Subject;

/// A job, by Slurm's number, and the user who runs it. A process says itself to which job it belongs, so that what a
/// user says of another's job is kept by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UsersJob {
    pub(super) uid: u32,
    pub(super) job: u32,
}

/// All clients, by number.
#[derive(Debug, Default)]
pub(super) struct Clients(BTreeMap<ClientId, ClientState>);

impl Clients {
    /// A process connected. `client` is larger than all before it.
    pub(super) fn arrive(&mut self, client: ClientId, pid: u32) {
        let entry = ClientState {
            pid,
            ..ClientState::default()
        };
        self.0.insert(client, entry);
    }

    /// The client's process is this user's.
    pub(super) fn belongs_to(&mut self, client: ClientId, uid: u32) {
        if let Some(entry) = self.0.get_mut(&client) {
            entry.uid = uid;
        }
    }

    /// The client's process runs this program.
    pub(super) fn identify(&mut self, client: ClientId, program: ProgramId) {
        if let Some(entry) = self.0.get_mut(&client) {
            entry.program = Some(program);
        }
    }

    /// The client's process belongs to this job. Returns the job with its user.
    pub(super) fn join(&mut self, client: ClientId, job: u64) -> Option<JobOfUser> {
        let entry = self.0.get_mut(&client)?;
        entry.job = job;
        Some(entry.job_of_user())
    }

    /// The client begins no task. `administers`: its orders may be about the programs of all users.
    pub(super) fn only_observes(&mut self, client: ClientId, administers: bool) {
        if let Some(entry) = self.0.get_mut(&client) {
            entry.observes = true;
            entry.administers = administers;
        }
    }

    /// The client's process has ended.
    pub(super) fn remove(&mut self, client: ClientId) -> Option<ClientState> {
        self.0.remove(&client)
    }

    /// What is known of a client; `None`: its process has ended.
    pub(super) fn get(&self, client: ClientId) -> Option<&ClientState> {
        self.0.get(&client)
    }

    /// Whether the client is known.
    pub(super) fn has(&self, client: ClientId) -> bool {
        self.0.contains_key(&client)
    }

    /// The user of a client; 0 for one that is gone.
    pub(super) fn user(&self, client: ClientId) -> u32 {
        self.get(client).map_or(0, |entry| entry.uid)
    }

    /// The process of a client; 0 for one that is gone.
    pub(super) fn pid(&self, client: ClientId) -> u32 {
        self.get(client).map_or(0, |entry| entry.pid)
    }

    /// The program of a client, where it is known.
    pub(super) fn program(&self, client: ClientId) -> Option<ProgramId> {
        self.get(client)?.program
    }

    /// Whether the client begins no task.
    pub(super) fn observes(&self, client: ClientId) -> bool {
        self.get(client).is_some_and(|entry| entry.observes)
    }

    /// Whether the client's orders may be about the programs of all users.
    pub(super) fn administers(&self, client: ClientId) -> bool {
        self.get(client).is_some_and(|entry| entry.administers)
    }

    /// All clients, the senior first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &ClientState)> {
        self.0.iter().map(|(client, entry)| (*client, entry))
    }

    /// The clients that may begin tasks.
    pub(super) fn programs(&self) -> impl Iterator<Item = (ClientId, &ClientState)> {
        self.iter().filter(|(_, entry)| !entry.observes)
    }

    /// The users of all clients.
    pub(super) fn users(&self) -> BTreeSet<u32> {
        self.0.values().map(|entry| entry.uid).collect()
    }

    /// The clients that a person's order is about.
    pub(super) fn of(&self, subject: Subject) -> impl Iterator<Item = (ClientId, &ClientState)> {
        self.programs().filter(move |(_, entry)| subject.is(entry))
    }

    /// The clients with that process number that may begin tasks.
    pub(super) fn of_pid(&self, pid: u32) -> Option<ClientId> {
        let mut found = self.programs().filter(|(_, entry)| entry.pid == pid);
        found.next().map(|(client, _)| client)
    }

    /// The users of the job of that number, where its user is not known: all who are here with one of that number.
    pub(super) fn users_of_job(&self, job: u64, user: Option<u32>) -> BTreeSet<u32> {
        let here = self.0.values().filter(|entry| entry.job == job);
        user.map_or_else(
            || here.map(|entry| entry.uid).collect(),
            |uid| BTreeSet::from([uid]),
        )
    }

    /// The job of Slurm that a client belongs to.
    pub(super) fn slurm_job_of(&self, client: ClientId) -> Option<UsersJob> {
        let entry = self.get(client)?;
        slurm_job(entry.job).map(|job| UsersJob { uid: entry.uid, job })
    }

    /// The clients of a job of Slurm.
    pub(super) fn of_slurm_job(&self, of: UsersJob) -> impl Iterator<Item = (ClientId, &ClientState)> {
        self.iter()
            .filter(move |(_, entry)| entry.uid == of.uid && slurm_job(entry.job) == Some(of.job))
    }

    /// What a person's order is about, as far as it is here: a process, or a job. A number alone means the job of
    /// the client's own user; from a client that administers the node that of the user it names ([`OF_JOB`]), or of
    /// any.
    pub(super) fn subjects(&self, client: ClientId, request: &Request) -> BTreeSet<Subject> {
        let mut all = self.programs().map(|(_, entry)| entry);
        if request.flags & OF_JOB != 0 {
            let user = match self.get(client) {
                Some(entry) if !entry.administers => Some(entry.uid),
                _ => request
                    .bytes
                    .checked_sub(1)
                    .and_then(|uid| u32::try_from(uid).ok()),
            };
            let entries = all.filter(|entry| user.is_none_or(|user| user == entry.uid));
            return entries
                .map(|entry| (entry, Subject::Job((entry.uid, request.task))))
                .filter(|(entry, subject)| subject.is(entry))
                .filter_map(|(_, subject)| subject.or_none())
                .collect();
        }
        let Ok(pid) = u32::try_from(request.task) else {
            return BTreeSet::new();
        };
        let found = all.find(|entry| entry.pid == pid);
        let subject = found.and_then(|entry| match request.flags & WHOLE_JOB {
            0 => Some(Subject::Process(pid)),
            _ => Subject::Job(entry.job_of_user()).or_none(),
        });
        subject.into_iter().collect()
    }

    /// Why a client's user may not give this order; `None`: the user may.
    pub(super) fn may_not_order(&self, client: ClientId, request: &Request) -> Option<&'static str> {
        if self.administers(client) {
            return None;
        }
        let uid = self.get(client).map_or(u32::MAX, |entry| entry.uid);
        if matches!(request.op, Op::Drain | Op::EndDrain) {
            return Some("only root and mgbd's user may do that, outside of containers");
        }
        if request.flags & OF_JOB != 0 && request.op != Op::Move {
            // Of that number only the user's own job is meant.
            return None;
        }
        let subject = Subject::Process(u32::try_from(request.task).ok()?);
        let others = self.of(subject).any(|(_, entry)| entry.uid != uid);
        others.then_some("that belongs to another user")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients() -> Clients {
        let mut clients = Clients::default();
        for (client, uid, job) in [(1, 7, 3), (2, 7, 3), (3, 8, 3), (4, 8, 0)] {
            clients.arrive(client, client as u32 + 100);
            clients.belongs_to(client, uid);
            assert_eq!(clients.join(client, job), Some((uid, job)));
        }
        clients
    }

    fn ids<'a>(found: impl Iterator<Item = (ClientId, &'a ClientState)>) -> Vec<ClientId> {
        found.map(|(client, _)| client).collect()
    }

    #[test]
    fn a_client_that_is_gone_is_nobodys() {
        let mut clients = clients();
        assert_eq!((clients.user(1), clients.pid(1)), (7, 101));
        clients.remove(1);
        assert_eq!((clients.user(1), clients.pid(1), clients.has(1)), (0, 0, false));
        assert_eq!(clients.users(), BTreeSet::from([7, 8]));
    }

    #[test]
    fn a_job_is_its_users() {
        let mut clients = clients();
        assert_eq!(ids(clients.of(Subject::Job((7, 3)))), [1, 2]);
        assert_eq!(clients.users_of_job(3, None), BTreeSet::from([7, 8]));
        assert_eq!(clients.users_of_job(3, Some(9)), BTreeSet::from([9]));
        clients.only_observes(2, false);
        assert_eq!(ids(clients.of(Subject::Job((7, 3)))), [1]);
        assert_eq!(clients.of_pid(102), None, "it begins no task");
    }
}
