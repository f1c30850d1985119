//! What clients' processes have on the GPUs beside their tasks and an ordinary context, from the driver's
//! list of processes.
//!
//! A client maps before it says so, and the driver is asked in between. So a figure counts only as far as two
//! looks in a row agree, and of what the client says before and after the question the more counts. A list
//! whose sum is more than what is in use on the GPU says something else than what each process has, and does
//! not count at all.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Ledger;
use crate::client::ClientId;
use crate::daemon::client::Client;
use crate::daemon::process::family::belongs_to;
use crate::daemon::process::marks::Marks;
use crate::node::{GpuMemory, NodeDriver, Resident};

/// Between two samples of a GPU: many programs live for a second or two. A list takes the driver 40 us, at
/// most some 15 ms while processes come and go (an H200).
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// Bytes that a client's process has beside its tasks and an ordinary context.
pub(crate) type Overhead = (ClientId, u64);

/// The last sample of a GPU.
#[derive(Clone, Debug, Default)]
struct OverheadSample {
    at: Duration,
    seen: BTreeMap<ClientId, u64>,
}

/// Measures what processes take on a GPU beside their tasks and contexts.
pub(crate) struct Overheads {
    marks: Marks,
    last: Vec<OverheadSample>,
}

impl Overheads {
    pub(crate) fn new(gpus: usize, marks: Marks) -> Overheads {
        Overheads {
            marks,
            last: vec![OverheadSample::default(); gpus],
        }
    }

    /// Samples one GPU that is due, if there is any: how much each process has there.
    pub(crate) fn sample(
        &mut self,
        node: &dyn NodeDriver,
        ledger: &Ledger,
        clients: &BTreeMap<ClientId, Client>,
        now: Duration,
    ) -> Option<(usize, Vec<Overhead>)> {
        let is_due = |sample: &OverheadSample| now.saturating_sub(sample.at) >= SAMPLE_INTERVAL;
        let gpu = self.last.iter().position(is_due)?;
        let last = &mut self.last[gpu];
        last.at = now;
        let seen = sample_gpu(gpu, node, ledger, clients, &self.marks);
        let agreed = seen
            .iter()
            .filter_map(|(client, bytes)| Some((*client, *bytes.min(last.seen.get(client)?))))
            .collect();
        last.seen = seen;
        Some((gpu, agreed))
    }
}

fn sample_gpu(
    gpu: usize,
    node: &dyn NodeDriver,
    ledger: &Ledger,
    clients: &BTreeMap<ClientId, Client>,
    marks: &Marks,
) -> BTreeMap<ClientId, u64> {
    let there = ledger.contexts().filter(|&(_, on, _)| on == gpu);
    let there: Vec<&Client> = there.filter_map(|(id, ..)| clients.get(&id)).collect();
    if there.is_empty() {
        return BTreeMap::new();
    }
    let said = || there.iter().map(|client| client.resident(gpu).0);
    let before: Vec<u64> = said().collect();
    let Ok(residents) = node.residents(gpu) else {
        return BTreeMap::new();
    };
    if !node
        .memory(gpu)
        .is_ok_and(|memory| is_plausible(&residents, memory))
    {
        return BTreeMap::new();
    }
    let context = ledger.gpus()[gpu].context_bytes;
    let declared: BTreeMap<ClientId, u64> = there
        .iter()
        .filter_map(|client| Some((client.id, declared(ledger, client.id, gpu)?)))
        .collect();
    let has = bytes_of(&there, &declared, &residents, marks);
    let mut seen = BTreeMap::new();
    for ((client, earlier), later) in there.iter().zip(before).zip(said()) {
        if let Some(bytes) = has.get(&client.id) {
            // A whole process says nothing of what it maps: it may have what it was granted.
            let known = declared.get(&client.id).copied();
            let known = known
                .unwrap_or_else(|| earlier.max(later))
                .saturating_add(context);
            seen.insert(client.id, bytes.saturating_sub(known));
        }
    }
    seen
}

/// What the driver says that clients' processes have; of a whole process its children's as well. Each process
/// is looked up once, and its parents only where there are whole processes.
fn bytes_of(
    there: &[&Client],
    declared: &BTreeMap<ClientId, u64>,
    residents: &[Resident],
    marks: &Marks,
) -> BTreeMap<ClientId, u64> {
    let all: BTreeMap<u32, ClientId> = there.iter().map(|client| (client.pid, client.id)).collect();
    let mut whole = all.clone();
    whole.retain(|_, id| declared.contains_key(id));
    let mut has = BTreeMap::<ClientId, u64>::new();
    for resident in residents {
        let own = all.get(&resident.pid).copied();
        let own = own.or_else(|| {
            if whole.is_empty() {
                None
            } else {
                let there = || {
                    there
                        .iter()
                        .copied()
                        .filter(|client| declared.contains_key(&client.id))
                };
                belongs_to(resident.pid, &whole).or_else(|| marks.belongs_to(resident.pid, there()))
            }
        });
        if let (Some(id), Some(bytes)) = (own, resident.bytes) {
            let sum = has.entry(id).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    has
}

/// Bytes that a client has as a whole process; `None`: it is none.
fn declared(ledger: &Ledger, client: ClientId, gpu: usize) -> Option<u64> {
    let whole = ledger.tasks_of(client).filter(|(_, held)| held.whole_process);
    let there = whole.map(|(_, held)| if held.gpu == gpu { held.reserved } else { 0 });
    there.reduce(u64::saturating_add)
}

/// Whether the list says what each process has.
fn is_plausible(residents: &[Resident], memory: GpuMemory) -> bool {
    let bytes = residents.iter().filter_map(|resident| resident.bytes);
    bytes.fold(0, u64::saturating_add) <= memory.used()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_says_more_than_is_in_use_does_not_count() {
        let has = |bytes| Resident { pid: 1, bytes };
        let memory = GpuMemory { total: 100, free: 40 };
        for (residents, counts) in [
            (vec![], true),
            (vec![has(Some(40)), has(Some(20)), has(None)], true),
            (vec![has(Some(60)), has(Some(1))], false),
            (vec![has(Some(u64::MAX)), has(Some(u64::MAX))], false),
        ] {
            assert_eq!(is_plausible(&residents, memory), counts, "{residents:?}");
        }
    }
}
