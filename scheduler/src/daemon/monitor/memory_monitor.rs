//! What the driver shows, held against what clients say.
//!
//! A new grant is physically covered if the driver's free memory holds it beside
//! everything that living holders may still map: the part of their reservations
//! that is not resident, and contexts they have not made. Both come from the
//! clients, clamped to what the ledger knows, and for plain programs from the
//! driver's list of processes. A client that lies can at worst make the driver
//! fail an allocation, as it could by allocating without asking.
//!
//! A client may map or unmap while the driver is asked. It publishes less before
//! it unmaps and more after it maps, so the lesser of what it says before and
//! after the question never counts bytes as resident that the driver counts as
//! free; the count of changes tells of an up and down in between.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::Ledger;
use crate::broker::Snapshot;
use crate::client::ClientId;
use crate::daemon::client::Client;
use crate::daemon::process::family::belongs_to;
use crate::daemon::process::marks::Marks;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;
use crate::node::{GpuMemory, NodeDriver, NodeError, Resident};

/// How often to ask again while clients keep mapping.
const TRIES: usize = 4;
/// How often the log says of a GPU that the driver still says nothing of it.
const BLIND_INTERVAL: Duration = Duration::from_secs(60);

/// What was seen of a GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct GpuSample {
    /// What the driver says; `None` if it does not.
    pub(crate) memory: Option<GpuMemory>,
    /// The processes with a context there, as the driver says; `None` if it does not.
    pub(crate) residents: Option<Vec<Resident>>,
    /// Bytes that living holders may still map.
    pub(crate) outstanding: u64,
    /// Bytes they have, contexts included.
    pub(crate) actual: u64,
    /// Bytes mapped under reservations.
    pub(crate) resident: u64,
    /// What foreign programs and the driver have, as last seen while nothing was
    /// being reclaimed.
    pub(crate) foreign: u64,
    /// Launches in flight.
    pub(crate) launches: u64,
    /// The driver cannot reach it.
    pub(crate) is_lost: bool,
    /// All of its memory, as the driver said last; `None`: it never did.
    total: Option<u64>,
    /// Since when the driver says nothing of it.
    blind: Option<Blind>,
}

/// That the driver says nothing of a GPU.
#[derive(Clone, Copy, Debug)]
struct Blind {
    since: Instant,
    said: Instant,
}

impl GpuSample {
    /// Bytes that a grant may take. Where the driver says nothing, foreign programs have what they had when
    /// it did.
    fn covered(&self) -> Option<u64> {
        let free = match (self.memory, self.total) {
            (Some(memory), _) => memory.free,
            (None, Some(total)) if !self.is_lost => {
                total.saturating_sub(self.foreign.saturating_add(self.actual))
            }
            _ => return None,
        };
        Some(free.saturating_sub(self.outstanding))
    }
}

impl GpuSample {
    /// The driver says nothing of it: tells people, now and then.
    fn is_silent(&mut self, gpu: usize, error: &NodeError) {
        let now = Instant::now();
        let blind = self.blind.get_or_insert(Blind {
            since: now,
            said: now,
        });
        let is_new = blind.since == now;
        if is_new || now.saturating_duration_since(blind.said) >= BLIND_INTERVAL {
            blind.said = now;
            let seconds = now.saturating_duration_since(blind.since).as_secs();
            tracing::warn!(
                gpu,
                %error,
                seconds,
                "going by the ledger, and by what others had there when the driver last said so"
            );
        }
    }

    /// The driver says this of it.
    fn speaks(&mut self, gpu: usize, memory: GpuMemory) {
        self.total = Some(memory.total);
        if let Some(blind) = self.blind.take() {
            let seconds = blind.since.elapsed().as_secs();
            tracing::info!(gpu, seconds, "the driver says again what is free");
        }
    }
}

/// Samples the memory of every GPU.
pub(crate) struct MemoryMonitor {
    marks: Marks,
    pub(crate) gpus: Vec<GpuSample>,
}

/// A client that holds something on a GPU: its entries in the ledger, and its connection if there is one.
struct GpuHolder<'a> {
    id: ClientId,
    client: Option<&'a Client>,
    /// Reserved by tasks that publish what they map.
    published: u64,
    /// Reserved by tasks that are a plain program.
    plain: u64,
    context: u64,
}

impl GpuHolder<'_> {
    /// What it says of its resident bytes, clamped, and its count of changes.
    fn said(&self, gpu: usize) -> (u64, u64) {
        let (bytes, changes) = self.client.map_or((0, 0), |client| client.resident(gpu));
        (bytes.min(self.published), changes)
    }

    /// Bytes that it says that it has mapped beyond what is reserved for it.
    fn ahead(&self, gpu: usize) -> u64 {
        let says = self.client.map_or(0, |client| client.resident(gpu).0);
        says.saturating_sub(self.published)
    }

    /// Bytes of its context, if it says that it has made it. The driver lists a process from the moment it
    /// begins to make one, long before the memory is taken, so being listed says nothing.
    fn said_context(&self, gpu: usize) -> u64 {
        let made = self.client.is_some_and(|client| client.says_context(gpu));
        if made { self.context } else { 0 }
    }
}

type MonitoredClients = BTreeMap<ClientId, Client>;

impl MemoryMonitor {
    pub(crate) fn new(gpus: usize, marks: Marks) -> MemoryMonitor {
        MemoryMonitor {
            marks,
            gpus: vec![GpuSample::default(); gpus],
        }
    }

    /// The GPUs that were out of the driver's reach.
    pub(crate) fn lost(&self) -> GpuSet {
        (0..self.gpus.len())
            .filter(|gpu| self.gpus[*gpu].is_lost)
            .collect()
    }

    /// Samples every GPU.
    pub(crate) fn sample(
        &mut self,
        node: &dyn NodeDriver,
        ledger: &Ledger,
        clients: &MonitoredClients,
    ) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let holders = holders(ledger, clients);
        // A client that holds nothing has no lease.
        for client in holders.iter().flatten().filter_map(|holder| holder.client) {
            let keys = client.leases().map(|task| TaskKey {
                client: client.id,
                task,
            });
            snapshot.leased.extend(keys);
        }
        for (gpu, holders) in holders.iter().enumerate() {
            self.sample_gpu(gpu, node, ledger, clients, holders);
            for holder in holders {
                let ahead = holder.ahead(gpu);
                if ahead > 0 {
                    snapshot.ahead.insert((holder.id, gpu), ahead);
                }
            }
            snapshot.covered.push(self.gpus[gpu].covered());
            for client in holders.iter().filter_map(|holder| holder.client) {
                let launches = client.launches(gpu);
                self.gpus[gpu].launches += u64::from(launches);
                let says = client.publishes(gpu).then(|| client.is_busy(gpu));
                if may_work(launches, says) {
                    snapshot.busy.insert((client.id, gpu));
                }
            }
        }
        snapshot.lost = self.lost();
        snapshot
    }

    fn sample_gpu(
        &mut self,
        gpu: usize,
        node: &dyn NodeDriver,
        ledger: &Ledger,
        clients: &MonitoredClients,
        holders: &[GpuHolder<'_>],
    ) {
        let reclaiming = ledger.reclaiming().iter().any(|entry| entry.gpu == gpu);
        let plain = holders.iter().any(|holder| holder.plain > 0);
        let residents = || {
            if reclaiming || plain {
                node.residents(gpu).ok()
            } else {
                None
            }
        };
        let said = || -> Vec<(u64, u64)> { holders.iter().map(|holder| holder.said(gpu)).collect() };
        let (mut before, mut listed) = (said(), residents());
        let mut memory = None;
        let mut is_lost = false;
        let mut resident = Vec::new();
        for attempt in 1..=TRIES {
            memory = match node.memory(gpu) {
                Ok(memory) => {
                    is_lost = false;
                    Some(memory)
                }
                Err(error) => {
                    is_lost = error.is_lost;
                    if !is_lost {
                        self.gpus[gpu].is_silent(gpu, &error);
                    }
                    None
                }
            };
            let after = said();
            let still = after == before;
            let least = before
                .iter()
                .zip(&after)
                .map(|((earlier, _), (bytes, _))| *earlier.min(bytes));
            resident = least.collect();
            if still || attempt == TRIES {
                break;
            }
            before = after;
        }
        let mut contexts: Vec<u64> = holders.iter().map(|holder| holder.said_context(gpu)).collect();
        // Plain programs say nothing; the driver is asked before and after.
        if plain {
            let earlier = plain_bytes(holders, clients, listed.as_deref(), &self.marks);
            let again = residents();
            let now = plain_bytes(holders, clients, again.as_deref(), &self.marks);
            for (at, holder) in holders.iter().enumerate() {
                let bytes = |of: &BTreeMap<ClientId, u64>| of.get(&holder.id).copied().unwrap_or(0);
                let least = bytes(&earlier).min(bytes(&now));
                resident[at] += least.saturating_sub(holder.context).min(holder.plain);
                contexts[at] = contexts[at].max(least.min(holder.context));
            }
            listed = again;
        }
        let seen = &mut self.gpus[gpu];
        (seen.outstanding, seen.actual, seen.resident, seen.launches) = (0, 0, 0, 0);
        for (holder, (mapped, made)) in holders.iter().zip(resident.into_iter().zip(contexts)) {
            seen.resident += mapped;
            seen.actual += mapped + made;
            seen.outstanding += (holder.published + holder.plain).saturating_sub(mapped);
            seen.outstanding += holder.context - made;
        }
        if seen.is_lost != is_lost {
            if is_lost {
                tracing::error!(gpu, "the driver cannot reach the GPU: no program begins there");
            } else {
                tracing::info!(gpu, "the driver reaches the GPU again: it is shared again");
            }
        }
        seen.is_lost = is_lost;
        if let Some(memory) = memory {
            seen.speaks(gpu, memory);
        }
        seen.memory = memory;
        seen.residents = listed;
        if let (Some(memory), false) = (memory, reclaiming) {
            seen.foreign = memory.used().saturating_sub(seen.actual);
        }
    }
}

/// Whether a process may have work under way: launches count until it waits for them, and it may have said
/// before that all of its work is done (`says`; `None`: it says nothing of that).
fn may_work(launches: u32, says: Option<bool>) -> bool {
    launches > 0 && says.unwrap_or(true)
}

/// The clients that hold something, by GPU, in the order of the clients.
fn holders<'a>(ledger: &Ledger, clients: &'a MonitoredClients) -> Vec<Vec<GpuHolder<'a>>> {
    let mut gpus: Vec<Vec<GpuHolder<'a>>> = ledger.gpus().iter().map(|_| Vec::new()).collect();
    // Whoever has a task on a GPU is charged for a context there.
    for (id, gpu, context) in ledger.contexts() {
        gpus[gpu].push(GpuHolder {
            id,
            client: clients.get(&id),
            published: 0,
            plain: 0,
            context,
        });
    }
    for (key, held) in ledger.tasks() {
        let holders = &mut gpus[held.gpu];
        if let Ok(at) = holders.binary_search_by_key(&key.client, |holder| holder.id) {
            if held.whole_process {
                holders[at].plain += held.reserved;
            } else {
                holders[at].published += held.reserved;
            }
        }
    }
    for (key, arrival) in ledger.arrivals() {
        let holders = &mut gpus[arrival.gpu];
        if let Ok(at) = holders.binary_search_by_key(&key.client, |holder| holder.id) {
            holders[at].published += arrival.bytes;
        }
    }
    gpus
}

/// What the driver says that plain programs, their children and what has left them have in all.
fn plain_bytes(
    holders: &[GpuHolder<'_>],
    clients: &MonitoredClients,
    residents: Option<&[Resident]>,
    marks: &Marks,
) -> BTreeMap<ClientId, u64> {
    let plain = || {
        holders
            .iter()
            .filter(|holder| holder.plain > 0)
            .filter_map(|holder| holder.client)
    };
    let pids: BTreeMap<u32, ClientId> = clients.values().map(|client| (client.pid, client.id)).collect();
    let mut bytes = BTreeMap::new();
    for resident in residents.unwrap_or(&[]) {
        let id = belongs_to(resident.pid, &pids).or_else(|| marks.belongs_to(resident.pid, plain()));
        if let Some(id) = id
            && let Ok(at) = holders.binary_search_by_key(&id, |holder| holder.id)
            && holders[at].plain > 0
        {
            *bytes.entry(id).or_default() += resident.bytes.unwrap_or(0);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::may_work;

    #[test]
    fn launches_that_are_known_to_be_done_keep_nobody_waiting() {
        assert!(may_work(3, None) && may_work(3, Some(true)));
        assert!(!may_work(3, Some(false)) && !may_work(0, Some(true)));
    }
}
