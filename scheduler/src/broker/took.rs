//! Keeps what jobs of Slurm take ([`super::usage`]), and shows it.

use std::time::Duration;

use mgb_probe::slurm_job;
use mgb_probe::view::JobView;

use super::Broker;
use super::usage::{MOST, Usage};
use crate::client::ClientId;

impl Broker {
    /// A client was granted room, for which it has waited.
    pub(super) fn took(&mut self, client: ClientId, waited: Duration, now: Duration) {
        let Some((job, uid)) = self.slurm_job_of(client) else {
            return;
        };
        let by_gpu = self.taken_by(job);
        let usage = self.usage_of(job, uid, now);
        usage.tasks += 1;
        usage.waited += waited;
        usage.peak_bytes = usage.peak_bytes.max(by_gpu.iter().sum());
        usage.gpu_peak_bytes = usage.gpu_peak_bytes.max(by_gpu.into_iter().max().unwrap_or(0));
    }

    /// A client wanted more than any GPU here has.
    pub(super) fn refused_to(&mut self, client: ClientId, wanted: u64, now: Duration) {
        if let Some((job, uid)) = self.slurm_job_of(client) {
            let usage = self.usage_of(job, uid, now);
            usage.refused_bytes = usage.refused_bytes.max(wanted);
        }
    }

    /// What the job has taken so far. Of many that have ended, one is forgotten for it.
    fn usage_of(&mut self, job: u32, uid: u32, now: Duration) -> &mut Usage {
        if self.usages.0.len() >= MOST && !self.usages.0.contains_key(&job) {
            let runs = |job: u32| {
                self.clients
                    .values()
                    .any(|client| slurm_job(client.job) == Some(job))
            };
            let ended = self.usages.0.iter().filter(|(job, _)| !runs(**job));
            let oldest = ended.min_by_key(|(_, usage)| usage.touched).map(|(job, _)| *job);
            oldest.and_then(|job| self.usages.0.remove(&job));
        }
        let usage = self.usages.0.entry(job).or_default();
        (usage.uid, usage.touched) = (uid, now);
        usage
    }

    /// The same room was wanted by a task that was there: no further task.
    pub(super) fn took_more(&mut self, client: ClientId, waited: Duration, now: Duration) {
        self.took(client, waited, now);
        let job = self.slurm_job_of(client);
        if let Some(usage) = job.and_then(|(job, _)| self.usages.0.get_mut(&job)) {
            usage.tasks = usage.tasks.saturating_sub(1);
        }
    }

    /// A task of the client is over.
    pub(super) fn held_for(&mut self, client: ClientId, lasted: Duration, now: Duration) {
        let job = self.slurm_job_of(client);
        if let Some(usage) = job.and_then(|(job, _)| self.usages.0.get_mut(&job)) {
            usage.held += lasted;
            usage.touched = now;
        }
    }

    /// What jobs have taken until now, for the node view.
    pub fn job_views(&self, now: Duration) -> Vec<JobView> {
        let view = |(&job, usage): (&u32, &Usage)| {
            let members = self
                .clients
                .iter()
                .filter(|(_, client)| slurm_job(client.job) == Some(job) && !client.looks);
            let members: Vec<ClientId> = members.map(|(id, _)| *id).collect();
            let tasks = members.iter().flat_map(|id| self.ledger.tasks_of(*id));
            let running: Duration = tasks
                .filter(|(_, held)| held.running)
                .map(|(_, held)| now.saturating_sub(held.granted))
                .sum();
            JobView {
                job,
                uid: usage.uid,
                processes: members.len() as u32,
                tasks: usage.tasks,
                peak_bytes: usage.peak_bytes,
                gpu_peak_bytes: usage.gpu_peak_bytes,
                refused_bytes: usage.refused_bytes,
                waited_ms: usage.waited.as_millis() as u64,
                held_ms: (usage.held + running).as_millis() as u64,
            }
        };
        self.usages.0.iter().map(view).collect()
    }

    fn slurm_job_of(&self, client: ClientId) -> Option<(u32, u32)> {
        let entry = self.clients.get(&client)?;
        slurm_job(entry.job).map(|job| (job, entry.uid))
    }

    /// By GPU: bytes that the job's processes have reserved, and their contexts.
    fn taken_by(&self, job: u32) -> Vec<u64> {
        let gpus = self.ledger.gpus();
        let mut bytes = vec![0; gpus.len()];
        for (id, _) in self
            .clients
            .iter()
            .filter(|(_, entry)| slurm_job(entry.job) == Some(job))
        {
            for (_, held) in self.ledger.tasks_of(*id) {
                bytes[held.gpu] += held.reserved;
            }
            for gpu in self.ledger.contexts_of(*id) {
                bytes[gpu] += gpus[gpu].context_bytes;
            }
        }
        bytes
    }
}
