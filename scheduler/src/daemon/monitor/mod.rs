//! What the GPUs and the processes on them do, sampled.

mod activity;
mod descriptor_count;
pub(crate) mod ending;
mod foreign;
pub(crate) mod gpu_time;
#[allow(clippy::disallowed_methods, reason = "a thread that asks the driver")]
mod health;
#[allow(clippy::disallowed_methods, reason = "the kernel's own words on memory")]
mod host_memory;
mod late_processes;
pub(crate) mod memory_monitor;
pub(crate) mod overhead;
#[cfg(test)]
mod pausing_jobs;
pub(crate) mod reclaim;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use mgb_probe::wire::GpuTime;

use crate::Broker;
use crate::broker::{Activity, Snapshot};
use crate::client::ClientId;
use crate::daemon::client::clients::Clients;
use crate::daemon::lookups::Lookups;
use crate::node::NodeDriver;
use activity::Activities;
use descriptor_count::Descriptors;
use ending::Endings;
use foreign::ForeignLoads;
use gpu_time::{Doing, GpuTimes, ShownTime};
use health::HealthWatch;
use late_processes::LateProcesses;
use memory_monitor::{GpuSample, MemoryMonitor};
use overhead::{Overhead, Overheads};
use reclaim::Reclaims;

/// Between two tries to reach a GPU that the driver could not.
const LOST_INTERVAL: Duration = Duration::from_secs(1);

/// The samples of the GPUs.
pub(crate) struct Monitor {
    memory: MemoryMonitor,
    activities: Activities,
    foreign_loads: ForeignLoads,
    gpu_times: GpuTimes,
    overheads: Overheads,
    reclaims: Reclaims,
    /// Processes that have more than they were granted,
    beyond: Endings,
    /// and those that have it for longer than they may.
    late: LateProcesses,
    descriptors: Descriptors,
    /// Ends with the monitor.
    health: Option<HealthWatch>,
    /// When a GPU that the driver could not reach is tried again.
    retry_at: Duration,
}

impl Monitor {
    /// A monitor of so many GPUs, and of as many descriptors as there may be.
    pub(crate) fn new(gpus: usize, descriptors: usize, lookups: &Lookups) -> Monitor {
        Monitor {
            memory: MemoryMonitor::new(gpus, lookups.marks()),
            activities: Activities::default(),
            foreign_loads: ForeignLoads::new(gpus),
            gpu_times: GpuTimes::new(gpus),
            overheads: Overheads::new(gpus, lookups.marks()),
            reclaims: Reclaims::new(),
            beyond: Endings::default(),
            late: LateProcesses::new(),
            descriptors: Descriptors::new(descriptors),
            health: None,
            retry_at: Duration::ZERO,
        }
    }

    /// Has the driver asked for the GPUs' health from now on.
    pub(crate) fn watch_health(&mut self, node: &dyn NodeDriver, lookups: &Lookups) -> io::Result<()> {
        let watch = node
            .health()
            .map(|source| HealthWatch::new(source, lookups.answers()));
        self.health = watch.transpose()?;
        Ok(())
    }

    /// Samples the GPUs. The flag says whether the driver lost one, or reaches it again.
    pub(crate) fn sample(
        &mut self,
        node: &dyn NodeDriver,
        broker: &Broker,
        clients: &Clients,
        now: Duration,
    ) -> (Snapshot, bool) {
        let (ledger, lost) = (broker.ledger(), self.memory.lost());
        let mut snapshot = self.memory.sample(node, ledger, clients.all());
        snapshot.activity = self.activities.sample(broker, clients.all(), now);
        self.account(broker, clients, &snapshot.activity, now);
        snapshot.foreign = self.foreign_loads.sample(node, broker, &snapshot.activity, now);
        if broker.waiting() || broker.presses() {
            snapshot.listening = clients.listening();
            snapshot.host_bytes = host_memory::to_spare();
        }
        let has_changed = snapshot.lost != lost;
        (snapshot, has_changed)
    }

    /// Accounts whose the time since the last sample was, and tells the processes.
    fn account(&mut self, broker: &Broker, clients: &Clients, activity: &[Activity], now: Duration) {
        if !self.gpu_times.is_due(now) {
            return;
        }
        let growing = broker.growing_at();
        let tasks = broker.ledger().tasks().filter(|(_, task)| task.whole_process);
        let plain: BTreeSet<_> = tasks.map(|(key, task)| (key.client, task.gpu)).collect();
        let doing = |seen: &Activity| {
            let place = (seen.client, seen.gpu);
            let client = clients.all().get(&seen.client);
            let says = client.is_some_and(|client| client.publishes(seen.gpu));
            Doing {
                client: seen.client,
                gpu: seen.gpu,
                // Of a plain program it is not known when it has; who has no context has none.
                works: if says {
                    seen.idle.is_none()
                } else {
                    plain.contains(&place)
                },
                waits: growing.contains(&place),
            }
        };
        let all: Vec<Doing> = activity.iter().map(doing).collect();
        self.gpu_times.sample(&all, now);
        for doing in &all {
            if let Some(client) = clients.all().get(&doing.client) {
                client.tell_time(doing.gpu, self.gpu_times.total(doing.client, doing.gpu));
            }
        }
    }

    /// Whose the time of the GPUs is, by client and GPU.
    pub(crate) fn gpu_times(&self, now: Duration) -> BTreeMap<(ClientId, usize), ShownTime> {
        self.gpu_times.shown(now)
    }

    /// Whose the time of a GPU was since a client came there.
    pub(crate) fn gpu_time(&self, client: ClientId, gpu: usize) -> GpuTime {
        self.gpu_times.total(client, gpu)
    }

    /// How long a GPU had work since mgbd's start, and in which part of the last seconds, in thousandths.
    pub(crate) fn gpu_work(&self, gpu: usize, now: Duration) -> (Duration, u32) {
        self.gpu_times.of_gpu(gpu, now)
    }

    /// Samples what clients have beside their tasks, of one GPU and if it is time.
    pub(crate) fn sample_overheads(
        &mut self,
        node: &dyn NodeDriver,
        broker: &Broker,
        clients: &Clients,
        now: Duration,
    ) -> Option<(usize, Vec<Overhead>)> {
        self.overheads.sample(node, broker.ledger(), clients.all(), now)
    }

    /// The last sample of each GPU.
    pub(crate) fn gpus(&self) -> &[GpuSample] {
        &self.memory.gpus
    }

    /// The rooms of the dead.
    pub(crate) fn reclaims(&self) -> &Reclaims {
        &self.reclaims
    }

    /// The same, to be told of deaths.
    pub(crate) fn reclaims_mut(&mut self) -> &mut Reclaims {
        &mut self.reclaims
    }

    /// Gives back what the driver shows free; true if anything was.
    pub(crate) fn reclaim(&mut self, broker: &mut Broker, now: Duration) -> bool {
        self.reclaims.check(&self.memory.gpus, broker, now)
    }

    /// What was done about processes that have more than they were granted.
    pub(crate) fn beyond(&mut self) -> &mut Endings {
        &mut self.beyond
    }

    /// Processes that have their memory for longer than they may.
    pub(crate) fn late(&mut self) -> &mut LateProcesses {
        &mut self.late
    }

    /// How many descriptors are open.
    pub(crate) fn descriptors(&self) -> &Descriptors {
        &self.descriptors
    }

    /// Counts the descriptors, if it is time. `accounted`: what clients account for.
    pub(crate) fn count_descriptors(&mut self, accounted: impl FnOnce() -> usize, now: Duration) {
        self.descriptors.count(accounted, now);
    }

    /// How long until GPUs that the driver could not reach are tried again; `None`: there are none.
    pub(crate) fn retries_in(&self, now: Duration) -> Option<Duration> {
        let has_lost = !self.memory.lost().is_empty();
        has_lost.then(|| self.retry_at.saturating_sub(now))
    }

    /// Whether it is time to try them.
    pub(crate) fn is_to_retry(&mut self, now: Duration) -> bool {
        let is_due = self.retries_in(now).is_some_and(|wait| wait.is_zero());
        if is_due {
            self.retry_at = now + LOST_INTERVAL;
        }
        is_due
    }
}
