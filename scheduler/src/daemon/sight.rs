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

use super::client::Client;
use super::family::belongs_to;
use crate::Ledger;
use crate::broker::Sight;
use crate::ledger::{ClientId, TaskKey};
use crate::node::{Memory, Node, Resident};

/// How often to ask again while clients keep mapping.
const TRIES: usize = 4;

/// What was seen of a GPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// What the driver says; `None` if it does not.
    pub(super) memory: Option<Memory>,
    /// Who has a context there, as the driver says; `None` if it does not.
    pub(super) residents: Option<Vec<Resident>>,
    /// Bytes that living holders may still map.
    pub(super) outstanding: u64,
    /// Bytes they have, contexts included.
    pub(super) actual: u64,
    /// Bytes mapped under reservations.
    pub(super) resident: u64,
    /// What foreign programs and the driver have, as last seen while nothing was
    /// being reclaimed.
    pub(super) foreign: u64,
    /// Launches in flight.
    pub(super) launches: u64,
}

impl Seen {
    fn covered(&self) -> Option<u64> {
        self.memory
            .map(|memory| memory.free.saturating_sub(self.outstanding))
    }
}

/// The eyes of `mgbd`.
#[derive(Default)]
pub(super) struct Eyes {
    pub(super) gpus: Vec<Seen>,
    complained: bool,
}

/// One holder's share of a GPU as the ledger has it.
#[derive(Clone, Copy, Default)]
struct Share {
    /// Reserved by tasks that publish what they map.
    published: u64,
    /// Reserved by tasks that are a plain program.
    plain: u64,
    context: u64,
}

type Clients = BTreeMap<ClientId, Client>;

impl Eyes {
    pub(super) fn new(gpus: usize) -> Eyes {
        Eyes {
            gpus: vec![Seen::default(); gpus],
            complained: false,
        }
    }

    /// Looks at every GPU.
    pub(super) fn look(&mut self, node: &dyn Node, ledger: &Ledger, clients: &Clients) -> Sight {
        let mut sight = Sight::default();
        for client in clients.values().filter(|client| !client.leaving) {
            let keys = client.leases().map(|task| TaskKey {
                client: client.id,
                task,
            });
            sight.leased.extend(keys);
        }
        for gpu in 0..self.gpus.len() {
            self.look_at(gpu, node, ledger, clients);
            sight.covered.push(self.gpus[gpu].covered());
            for client in clients.values() {
                let launches = client.launches(gpu);
                if launches > 0 {
                    sight.busy.insert((client.id, gpu));
                }
            }
        }
        sight
    }

    fn look_at(&mut self, gpu: usize, node: &dyn Node, ledger: &Ledger, clients: &Clients) {
        let shares = shares(gpu, ledger);
        let reclaiming = ledger.reclaiming().iter().any(|entry| entry.gpu == gpu);
        let ask_residents = reclaiming || shares.values().any(|share| share.plain > 0);
        let residents = || {
            if ask_residents {
                node.residents(gpu).ok()
            } else {
                None
            }
        };
        let (mut before, mut listed) = (said(gpu, &shares, clients), residents());
        let mut memory = None;
        let mut resident = BTreeMap::new();
        for attempt in 1..=TRIES {
            memory = match node.memory(gpu) {
                Ok(memory) => Some(memory),
                Err(error) => {
                    if !std::mem::replace(&mut self.complained, true) {
                        tracing::warn!(gpu, %error, "going by the ledger alone");
                    }
                    None
                }
            };
            let after = said(gpu, &shares, clients);
            let still = after == before;
            resident = least(&before, &after);
            if still || attempt == TRIES {
                break;
            }
            before = after;
        }
        let mut contexts = said_contexts(gpu, &shares, clients);
        // Plain programs say nothing; the driver is asked before and after.
        let plain = plain_bytes(&shares, clients, listed.as_deref());
        if shares.values().any(|share| share.plain > 0) {
            let again = residents();
            let now = plain_bytes(&shares, clients, again.as_deref());
            for (id, bytes) in plain {
                let share = shares[&id];
                let least = bytes.min(now.get(&id).copied().unwrap_or(0));
                *resident.entry(id).or_default() += least.saturating_sub(share.context).min(share.plain);
                let context = contexts.entry(id).or_default();
                *context = (*context).max(least.min(share.context));
            }
            listed = again;
        }
        let seen = &mut self.gpus[gpu];
        (seen.outstanding, seen.actual, seen.resident) = (0, 0, 0);
        for (id, share) in &shares {
            let mapped = resident.get(id).copied().unwrap_or(0);
            seen.resident += mapped;
            seen.actual += mapped;
            seen.outstanding += (share.published + share.plain).saturating_sub(mapped);
            let made = contexts.get(id).copied().unwrap_or(0);
            seen.actual += made;
            seen.outstanding += share.context - made;
        }
        seen.memory = memory;
        seen.residents = listed;
        seen.launches = clients
            .values()
            .map(|client| u64::from(client.launches(gpu)))
            .sum();
        if let (Some(memory), false) = (memory, reclaiming) {
            seen.foreign = memory.used().saturating_sub(seen.actual);
        }
    }
}

fn shares(gpu: usize, ledger: &Ledger) -> BTreeMap<ClientId, Share> {
    let mut shares: BTreeMap<ClientId, Share> = BTreeMap::new();
    for (client, _, bytes) in ledger.contexts().filter(|(_, at, _)| *at == gpu) {
        shares.entry(client).or_default().context = bytes;
    }
    for (key, held) in ledger.tasks().filter(|(_, held)| held.gpu == gpu) {
        let share = shares.entry(key.client).or_default();
        if held.whole_process {
            share.plain += held.reserved;
        } else {
            share.published += held.reserved;
        }
    }
    shares
}

/// What the clients say of their resident bytes, clamped, and their counts.
fn said(gpu: usize, shares: &BTreeMap<ClientId, Share>, clients: &Clients) -> BTreeMap<ClientId, (u64, u64)> {
    shares
        .iter()
        .filter_map(|(id, share)| {
            let (bytes, changes) = clients.get(id)?.resident(gpu);
            Some((*id, (bytes.min(share.published), changes)))
        })
        .collect()
}

fn least(
    before: &BTreeMap<ClientId, (u64, u64)>,
    after: &BTreeMap<ClientId, (u64, u64)>,
) -> BTreeMap<ClientId, u64> {
    let earlier = |id| before.get(id).map_or(0, |(bytes, _)| *bytes);
    after
        .iter()
        .map(|(id, (bytes, _))| (*id, earlier(id).min(*bytes)))
        .collect()
}

fn pids(clients: &Clients) -> BTreeMap<u32, ClientId> {
    clients.values().map(|client| (client.pid, client.id)).collect()
}

/// What the driver says that plain programs and their children have in all.
fn plain_bytes(
    shares: &BTreeMap<ClientId, Share>,
    clients: &Clients,
    residents: Option<&[Resident]>,
) -> BTreeMap<ClientId, u64> {
    let pids = pids(clients);
    let mut bytes = BTreeMap::new();
    for resident in residents.unwrap_or(&[]) {
        if let Some(id) = belongs_to(resident.pid, &pids)
            && shares.get(&id).is_some_and(|share| share.plain > 0)
        {
            *bytes.entry(id).or_default() += resident.bytes.unwrap_or(0);
        }
    }
    bytes
}

/// Bytes of contexts that clients say are made. The driver lists a process from
/// the moment it begins to make one, long before the memory is taken, so being
/// listed says nothing.
fn said_contexts(
    gpu: usize,
    shares: &BTreeMap<ClientId, Share>,
    clients: &Clients,
) -> BTreeMap<ClientId, u64> {
    shares
        .iter()
        .filter(|(id, _)| clients.get(id).is_some_and(|client| client.says_context(gpu)))
        .map(|(id, share)| (*id, share.context))
        .collect()
}
