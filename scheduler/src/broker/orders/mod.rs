//! Orders to clients: to bring idle memory to the host, or to move a task to another GPU.

mod agent;
mod hindrances;
mod moves;

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::view::Counts;
use mgb_probe::wire::Order;

use super::clients::Clients;
use super::snapshot::Snapshot;
use crate::client::ClientId;
use crate::eviction::Speed;
use crate::gpu_set::GpuSet;
use crate::ledger::Ledger;

pub(super) use agent::Agent;
pub use agent::OrderTo;
use agent::{OpenOrder, SwapOrder};
pub(super) use hindrances::{LeavingBytes, Leavings, leaving};
pub(super) use moves::Moves;

/// How long a client may take to obey, beside a second for each gibibyte.
const OBEY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client is given no order after one that it did not answer.
const DEAF_TIMEOUT: Duration = Duration::from_secs(60);
/// The same after one by which nothing came free: twice as long with each in a row.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// The longest such time where a person wants the memory to leave.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// How much the speed of one copy counts beside those before it.
const SPEED_COUNTS: f64 = 0.3;

/// The clients' agents, and the orders that they are given.
#[derive(Debug)]
pub(super) struct Orders {
    pub(super) moves: Moves,
    agents: BTreeMap<ClientId, Agent>,
    /// Orders that were decided on, and not carried to the clients yet.
    outgoing: Vec<OrderTo>,
    /// What is to leave and cannot, as of the last round.
    leavings: Leavings,
    /// How fast memory is expected to go to the host.
    speed: Speed,
    /// No copy was seen yet.
    speed_is_assumed: bool,
}

impl Orders {
    /// No client yet; memory is expected to go to the host so fast until a copy was seen.
    pub(super) fn new(speed: Speed) -> Orders {
        Orders {
            moves: Moves::default(),
            agents: BTreeMap::new(),
            outgoing: Vec::new(),
            leavings: Leavings::default(),
            speed,
            speed_is_assumed: true,
        }
    }

    /// A client arrived.
    pub(super) fn arrive(&mut self, client: ClientId) {
        self.agents.insert(client, Agent::default());
    }

    /// The client's process has ended. What had left its GPU by an order that it could not answer any more
    /// was evicted all the same.
    pub(super) fn remove(&mut self, client: ClientId, counts: &mut Counts) {
        let open = self.agents.remove(&client).and_then(|agent| agent.open);
        if let Some(open) = open.filter(|open| !open.moves && open.left > 0) {
            let freed = open.left.min(open.bytes);
            count_evicted(counts, freed);
            tracing::info!(
                client,
                gpu = open.gpu,
                freed,
                "evicted, and ended before it said so"
            );
        }
    }

    /// So many bytes of the client have left the GPU.
    pub(super) fn left(&mut self, client: ClientId, gpu: usize, bytes: u64) {
        let open = self.agents.get_mut(&client).and_then(|agent| agent.open.as_mut());
        if let Some(open) = open.filter(|open| open.gpu == gpu) {
            open.left = open.left.saturating_add(bytes);
        }
    }

    /// The orders that were decided on since the last call.
    pub(super) fn take_outgoing(&mut self) -> Vec<OrderTo> {
        std::mem::take(&mut self.outgoing)
    }

    /// How fast memory is expected to go to the host.
    pub(super) fn speed(&self) -> Speed {
        self.speed
    }

    /// What is to leave and cannot, as of the last round.
    pub(super) fn leavings(&self) -> &Leavings {
        &self.leavings
    }

    /// What is to leave and cannot, as of this round.
    pub(super) fn leavings_mut(&mut self) -> &mut Leavings {
        &mut self.leavings
    }

    /// A client's agent.
    pub(super) fn agent(&self, client: ClientId) -> Option<&Agent> {
        self.agents.get(&client)
    }

    /// The client's agent, if it may be given an order now.
    pub(super) fn free_agent(&self, client: ClientId, snapshot: &Snapshot, now: Duration) -> Option<&Agent> {
        let agent = self.agents.get(&client)?;
        let listens = snapshot.listening.contains(&client);
        (agent.is_free() && listens && now >= agent.not_before).then_some(agent)
    }

    /// Whether the client was ordered to bring what it has on the GPU elsewhere.
    pub(super) fn is_leaving(&self, client: ClientId, gpu: usize) -> bool {
        let open = self.agents.get(&client).and_then(|agent| agent.open);
        open.is_some_and(|open| open.gpu == gpu)
    }

    /// GPUs that memory was ordered to leave.
    pub(super) fn leaving_from(&self) -> GpuSet {
        let open = self.agents.values().filter_map(|agent| agent.open);
        open.map(|open| open.gpu).collect()
    }

    /// Bytes that clients were ordered to bring to the host and have not said that they did.
    pub(super) fn on_their_way(&self) -> impl Iterator<Item = (ClientId, u64)> {
        self.agents.iter().filter_map(|(client, agent)| {
            let open = agent.open.filter(|open| !open.moves)?;
            Some((*client, open.bytes))
        })
    }

    /// The client has room for more again.
    pub(super) fn came_back(&mut self, client: ClientId, now: Duration) {
        if let Some(agent) = self.agents.get_mut(&client) {
            agent.back = now;
        }
    }

    /// A client is suspended: what came of orders before says nothing of the one that it is given now.
    pub(super) fn forget_failures(&mut self, client: ClientId, now: Duration) {
        if let Some(agent) = self.agents.get_mut(&client) {
            agent.not_before = now;
            agent.failures = 0;
        }
    }

    /// The number of the client's next order.
    pub(super) fn next_number(&self, client: ClientId) -> Option<u32> {
        self.agents.get(&client).map(Agent::next_number)
    }

    /// Orders a client to bring so many bytes elsewhere. False: there is no such client.
    pub(super) fn give(
        &mut self,
        clients: &Clients,
        client: ClientId,
        order: Order,
        bytes: u64,
        now: Duration,
    ) -> bool {
        let Some(agent) = self.agents.get_mut(&client) else {
            return false;
        };
        let (gpu, number) = (order.gpu(), agent.next_number());
        agent.last = number;
        agent.open = Some(OpenOrder {
            number,
            gpu: gpu as usize,
            bytes,
            left: 0,
            since: now,
            waits_for_work: !matches!(order, Order::Evict { .. }),
            moves: matches!(order, Order::Move { .. }),
        });
        let pid = clients.pid(client);
        tracing::info!(client, pid, gpu, bytes, ?order, "its memory is to leave");
        self.outgoing.push(OrderTo {
            client,
            number,
            order,
        });
        true
    }

    /// A client says that it has carried an order out, and freed so much.
    pub(super) fn obeyed(
        &mut self,
        client: ClientId,
        number: u64,
        freed: u64,
        is_suspended: bool,
        counts: &mut Counts,
        now: Duration,
    ) {
        let Some(agent) = self.agents.get_mut(&client) else {
            return;
        };
        agent.is_deaf = false;
        // An answer to an order that was given up long ago says nothing.
        let Some(open) = agent.open.take_if(|open| u64::from(open.number) == number) else {
            return;
        };
        let lasted = now.saturating_sub(open.since);
        if open.moves {
            if freed == 0 {
                agent.not_before = now + RETRY_INTERVAL;
                counts.moves_failed += 1;
            }
            return;
        }
        if freed == 0 {
            let pause = RETRY_INTERVAL * (1 << agent.failures.min(6));
            let most = if is_suspended { MAX_RETRY_INTERVAL } else { pause };
            agent.not_before = now + pause.min(most);
            agent.failures += 1;
            counts.evictions_failed += 1;
            return;
        }
        agent.failures = 0;
        agent.evictions = agent.evictions.saturating_add(1);
        // What it freed is what the ledger has taken off its tasks; the number here is only its word.
        let freed = freed.min(open.bytes);
        if let Some(seen) = Speed::of(freed, lasted).filter(|_| !open.waits_for_work) {
            let counts = if self.speed_is_assumed { 1.0 } else { SPEED_COUNTS };
            self.speed = self.speed.after(seen, counts);
            self.speed_is_assumed = false;
        }
        count_evicted(counts, freed);
        tracing::info!(
            client,
            gpu = open.gpu,
            freed,
            took_ms = lasted.as_millis() as u64,
            "evicted"
        );
    }

    /// Gives up orders that were not obeyed for long: such clients are passed over from then on.
    pub(super) fn give_up_late(&mut self, clients: &Clients, counts: &mut Counts, now: Duration) {
        for (&client, agent) in &mut self.agents {
            let timeout = |open: &OpenOrder| OBEY_TIMEOUT + Duration::from_secs(open.bytes >> 30);
            let is_late = |open: &mut OpenOrder| now.saturating_sub(open.since) > timeout(open);
            if let Some(open) = agent.open.take_if(is_late) {
                agent.not_before = now + DEAF_TIMEOUT;
                agent.is_deaf = true;
                if open.moves {
                    counts.moves_failed += 1;
                } else {
                    counts.evictions_failed += 1;
                }
                tracing::warn!(
                    client,
                    pid = clients.pid(client),
                    gpu = open.gpu,
                    "it did not answer an order: passed over"
                );
            }
        }
    }

    /// A request of a client's thread is answered with an order to swap out what it has on the GPU.
    pub(super) fn order_swap(&mut self, ledger: &Ledger, client: ClientId, thread: u32, gpu: usize) {
        if let Some(agent) = self.agents.get_mut(&client) {
            agent.swap = Some(SwapOrder {
                thread,
                gpu,
                reserved: ledger.reserved_on(client, gpu),
            });
        }
    }

    /// A client's thread asks for room: if it was ordered to swap out, it has done so, or could not.
    pub(super) fn asks_again(&mut self, ledger: &Ledger, client: ClientId, thread: u32) {
        let Some(agent) = self.agents.get_mut(&client) else {
            return;
        };
        if let Some(order) = agent.swap.take_if(|order| order.thread == thread) {
            if ledger.reserved_on(client, order.gpu) >= order.reserved {
                agent.cannot_swap.insert(order.gpu);
            } else {
                agent.cannot_swap.remove(order.gpu);
            }
        }
    }

    /// Something was granted to the client: it may be able to swap again.
    pub(super) fn may_swap_again(&mut self, client: ClientId) {
        if let Some(agent) = self.agents.get_mut(&client) {
            agent.cannot_swap = GpuSet::EMPTY;
        }
    }

    /// Whether an order to swap freed nothing of what the client has on the GPU, or there is no such client.
    pub(super) fn cannot_swap(&self, client: ClientId, gpu: usize) -> bool {
        let agent = self.agents.get(&client);
        agent.is_none_or(|agent| agent.cannot_swap.contains(gpu))
    }

    /// Whether the client is to make room on some GPU and has not asked again.
    pub(super) fn is_to_swap(&self, client: ClientId) -> bool {
        let agent = self.agents.get(&client);
        agent.is_some_and(|agent| agent.swap.is_some())
    }

    /// Whether a client is to make room on the GPU and has not asked again.
    pub(super) fn swaps_from(&self, gpu: usize) -> bool {
        let mut orders = self.agents.values().filter_map(|agent| agent.swap);
        orders.any(|order| order.gpu == gpu)
    }

    /// Goes on where an earlier broker was: `last` has the number of the last order that each client was given; tasks on
    /// their way say so when they have arrived, or that they could not go.
    pub(super) fn bring_in(&mut self, last: &BTreeMap<ClientId, u32>, ledger: &Ledger, now: Duration) {
        for (client, last) in last {
            if let Some(agent) = self.agents.get_mut(client) {
                agent.last = *last;
            }
        }
        for (key, arrival) in ledger.arrivals() {
            let from = ledger.task(key).map_or(arrival.gpu, |holding| holding.gpu);
            if let Some(agent) = self.agents.get_mut(&key.client) {
                agent.open = Some(OpenOrder {
                    number: arrival.order,
                    gpu: from,
                    bytes: arrival.bytes,
                    left: 0,
                    since: now,
                    waits_for_work: true,
                    moves: true,
                });
            }
        }
    }
}

/// So many bytes of a client were brought to the host by an order.
fn count_evicted(counts: &mut Counts, bytes: u64) {
    counts.evicted += 1;
    counts.evicted_bytes = counts.evicted_bytes.saturating_add(bytes);
}

#[cfg(test)]
mod tests;
