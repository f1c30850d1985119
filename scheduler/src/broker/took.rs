//! Keeps what jobs of Slurm take ([`super::usage`]), and shows it.

use std::time::Duration;

use mgb_probe::slurm_job;
use mgb_probe::view::JobView;

use super::Broker;
use super::usage::{Usage, UsersJob};
use crate::client::ClientId;

impl Broker {
    /// A client was granted room, for which it has waited.
    pub(super) fn took(&mut self, client: ClientId, waited: Duration, now: Duration) {
        let Some(whose) = self.slurm_job_of(client) else {
            return;
        };
        let by_gpu = self.taken_by(whose);
        let usage = self.touch(whose, now);
        usage.tasks += 1;
        usage.waited += waited;
        usage.peak_bytes = usage.peak_bytes.max(by_gpu.iter().sum());
        usage.gpu_peak_bytes = usage.gpu_peak_bytes.max(by_gpu.into_iter().max().unwrap_or(0));
    }

    /// The same room was wanted by a task that was there: no further task.
    pub(super) fn took_more(&mut self, client: ClientId, waited: Duration, now: Duration) {
        self.took(client, waited, now);
        let whose = self.slurm_job_of(client);
        if let Some(usage) = whose.and_then(|whose| self.usages.get_mut(whose)) {
            usage.tasks = usage.tasks.saturating_sub(1);
        }
    }

    /// A client wanted more than any GPU here has.
    pub(super) fn refused_to(&mut self, client: ClientId, wanted: u64, now: Duration) {
        if let Some(whose) = self.slurm_job_of(client) {
            let usage = self.touch(whose, now);
            usage.refused_bytes = usage.refused_bytes.max(wanted);
        }
    }

    /// A task of the client is over.
    pub(super) fn held_for(&mut self, client: ClientId, lasted: Duration, now: Duration) {
        let whose = self.slurm_job_of(client);
        if let Some(usage) = whose.and_then(|whose| self.usages.get_mut(whose)) {
            usage.held += lasted;
            usage.touched = now;
        }
    }

    /// What jobs have taken until now, for the node view.
    pub fn job_views(&self, now: Duration) -> Vec<JobView> {
        let view = |(whose, usage): (UsersJob, &Usage)| {
            let members = self.processes_of(whose).filter(|id| !self.clients[id].looks);
            let members: Vec<ClientId> = members.collect();
            let tasks = members.iter().flat_map(|id| self.ledger.tasks_of(*id));
            let running: Duration = tasks
                .filter(|(_, held)| held.running)
                .map(|(_, held)| now.saturating_sub(held.granted))
                .sum();
            JobView {
                job: whose.job,
                uid: whose.uid,
                processes: members.len() as u32,
                tasks: usage.tasks,
                peak_bytes: usage.peak_bytes,
                gpu_peak_bytes: usage.gpu_peak_bytes,
                refused_bytes: usage.refused_bytes,
                waited_ms: usage.waited.as_millis() as u64,
                held_ms: (usage.held + running).as_millis() as u64,
            }
        };
        self.usages.iter().map(view).collect()
    }

    fn touch(&mut self, whose: UsersJob, now: Duration) -> &mut Usage {
        let clients = &self.clients;
        self.usages.touch(whose, now, |whose| {
            clients
                .values()
                .any(|client| client.uid == whose.uid && slurm_job(client.job) == Some(whose.job))
        })
    }

    fn slurm_job_of(&self, client: ClientId) -> Option<UsersJob> {
        let entry = self.clients.get(&client)?;
        slurm_job(entry.job).map(|job| UsersJob { uid: entry.uid, job })
    }

    fn processes_of(&self, whose: UsersJob) -> impl Iterator<Item = ClientId> {
        let own = self
            .clients
            .iter()
            .filter(move |(_, client)| client.uid == whose.uid && slurm_job(client.job) == Some(whose.job));
        own.map(|(id, _)| *id)
    }

    /// By GPU: bytes that the job's processes have reserved, and their contexts.
    fn taken_by(&self, whose: UsersJob) -> Vec<u64> {
        let gpus = self.ledger.gpus();
        let mut bytes = vec![0; gpus.len()];
        for id in self.processes_of(whose) {
            for (_, held) in self.ledger.tasks_of(id) {
                bytes[held.gpu] += held.reserved;
            }
            for gpu in self.ledger.contexts_of(id) {
                bytes[gpu] += gpus[gpu].context_bytes;
            }
        }
        bytes
    }
}
