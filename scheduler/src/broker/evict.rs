//! Evicting idle memory for requests that wait: puts the ledger, the queue and what was seen into the words
//! of [`crate::eviction`], and gives the orders.

use std::time::Duration;

use mgb_probe::wire::{Order, Reply};

use super::agent::{Given, OrderTo};
use super::view::work;
use super::{Activity, Agent, Broker, Snapshot, Waiting};
use crate::client::ClientId;
use crate::eviction::flexgpu::{self, Busy, Seen};
use crate::eviction::{self, Idle, Lack, Places, Rule};
use crate::gpu_set::GpuSet;
use crate::ledger::Colocation;

/// How long a client may take to obey, beside a second for each gibibyte.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client is given no order after one that it did not answer.
const DEAF: Duration = Duration::from_secs(60);
/// The same after one by which nothing came free: twice as long with each in a row.
const VAIN: Duration = Duration::from_millis(500);
/// The longest such time where a person wants the memory to leave.
pub(super) const AGAIN: Duration = Duration::from_secs(2);
/// Requests that are looked at, the longest wait first: there may be thousands.
const MOST_LACKS: usize = 32;

impl Broker {
    /// The rule by which idle memory is evicted, if it is.
    pub fn evicts_by(&self) -> Option<Rule> {
        self.rules.evicts.filter(|_| !self.ledger.blind())
    }

    /// The orders that were decided on since the last call.
    pub fn take_orders(&mut self) -> Vec<OrderTo> {
        std::mem::take(&mut self.orders)
    }

    /// Whether the client was ordered to bring what it has on the GPU elsewhere.
    pub(super) fn is_leaving(&self, client: ClientId, gpu: usize) -> bool {
        let given = self.clients.get(&client).and_then(|entry| entry.agent.given);
        given.is_some_and(|given| given.gpu == gpu)
    }

    /// The client has room for more again.
    pub(super) fn came_back(&mut self, client: ClientId, now: Duration) {
        if let Some(entry) = self.clients.get_mut(&client) {
            entry.agent.back = now;
        }
    }

    /// A client says that it has carried an order out.
    pub(super) fn obeyed(&mut self, client: ClientId, number: u64, freed: u64, now: Duration) -> Reply {
        self.came_of_move(client, number);
        let is_suspended = self.is_suspended(client);
        let Some(agent) = self.clients.get_mut(&client).map(|entry| &mut entry.agent) else {
            return Reply::Done;
        };
        agent.is_deaf = false;
        // An answer to an order that was given up long ago says nothing.
        let Some(given) = agent.given.take_if(|given| u64::from(given.number) == number) else {
            return Reply::Done;
        };
        let took = now.saturating_sub(given.since);
        if given.moves {
            if freed == 0 {
                agent.not_before = now + VAIN;
                self.counts.moves_failed += 1;
            }
            return Reply::Done;
        }
        if freed == 0 {
            let pause = VAIN * (1 << agent.in_vain.min(6));
            agent.not_before = now + if is_suspended { pause.min(AGAIN) } else { pause };
            agent.in_vain += 1;
            self.counts.evictions_failed += 1;
            return Reply::Done;
        }
        agent.in_vain = 0;
        agent.times = agent.times.saturating_add(1);
        // What it freed is what the ledger has taken off its tasks; the number here is only its word.
        let freed = freed.min(given.bytes);
        if !given.waits_for_work {
            self.speed = self.speed.seen(freed, took);
        }
        self.counts.evicted += 1;
        self.counts.evicted_bytes = self.counts.evicted_bytes.saturating_add(freed);
        tracing::info!(
            client,
            gpu = given.gpu,
            freed,
            took_ms = took.as_millis() as u64,
            "evicted"
        );
        Reply::Done
    }

    /// After a round: orders idle memory off GPUs for which requests wait. `lacks`: what they lack, if that
    /// is known.
    pub(super) fn evict_idle(
        &mut self,
        covered: &[Option<u64>],
        lacks: Option<Vec<Lack>>,
        snapshot: &Snapshot,
        now: Duration,
    ) {
        self.give_up_orders(now);
        let (Some(host), Some(rule)) = (self.host_room(snapshot), self.rules.evicts) else {
            return;
        };
        if self.queue.is_empty() || self.ledger.blind() {
            return;
        }
        let idle = self.idle(snapshot, now);
        let idle = self.that_may_swap(idle);
        if idle.is_empty() {
            return;
        }
        let closed = self.clients.values().filter_map(|entry| entry.agent.given);
        let closed = closed.map(|given| given.gpu).collect();
        let lacks = lacks.unwrap_or_else(|| self.lacks(covered, snapshot, now));
        let chosen = match rule {
            Rule::Pays => {
                let work = |gpu: usize| work(snapshot, |seen| seen.gpu == gpu);
                let places = Places {
                    closed,
                    work: (0..self.ledger.gpus().len()).map(work).collect(),
                    host,
                };
                eviction::choose(&lacks, &idle, &places, self.speed)
            }
            Rule::FlexGpu => {
                let max_warps: Vec<u64> = self.ledger.gpus().iter().map(|info| info.max_warps).collect();
                let seen = Seen {
                    idle: &idle,
                    busy: &self.busy(snapshot),
                    max_warps: &max_warps,
                };
                flexgpu::choose(&lacks, &seen, closed, self.speed, host)
            }
        };
        for own in chosen {
            // What was ordered before it may have been the last that may go to the host.
            if !self.may_swap(own.client, own.bytes) {
                continue;
            }
            tracing::info!(
                client = own.client,
                gpu = own.gpu,
                idle_ms = own.idle.as_millis() as u64,
                "others wait for its idle memory"
            );
            let gpu = own.gpu as u32;
            self.give_order(own.client, Order::Evict { gpu }, own.bytes, now);
        }
    }

    /// Orders a client to bring so many bytes to the host.
    pub(super) fn give_order(&mut self, client: ClientId, order: Order, bytes: u64, now: Duration) {
        let Some(entry) = self.clients.get_mut(&client) else {
            return;
        };
        let gpu = order.gpu();
        let moves = matches!(order, Order::Move { .. });
        let agent = &mut entry.agent;
        agent.last = agent.last.wrapping_add(1).max(1);
        agent.given = Some(Given {
            number: agent.last,
            gpu: gpu as usize,
            bytes,
            since: now,
            waits_for_work: !matches!(order, Order::Evict { .. }),
            moves,
        });
        tracing::info!(
            client,
            pid = entry.pid,
            gpu,
            bytes,
            ?order,
            "its memory is to leave"
        );
        let number = agent.last;
        if !moves {
            self.count_swap(client, bytes);
        }
        self.orders.push(OrderTo {
            client,
            number,
            order,
        });
    }

    /// Who has not obeyed for long is passed over from then on.
    pub(super) fn give_up_orders(&mut self, now: Duration) {
        for (client, entry) in &mut self.clients {
            let patience = |given: &Given| PATIENCE + Duration::from_secs(given.bytes >> 30);
            let is_late = |given: &mut Given| now.saturating_sub(given.since) > patience(given);
            if let Some(given) = entry.agent.given.take_if(is_late) {
                entry.agent.not_before = now + DEAF;
                entry.agent.is_deaf = true;
                if given.moves {
                    self.counts.moves_failed += 1;
                } else {
                    self.counts.evictions_failed += 1;
                }
                tracing::warn!(
                    client,
                    pid = entry.pid,
                    gpu = given.gpu,
                    "it did not answer an order: passed over"
                );
            }
        }
    }

    /// Bytes that the host has left for evicted memory; `None`: that is not known.
    pub(super) fn host_room(&self, snapshot: &Snapshot) -> Option<u64> {
        let there = snapshot.host_bytes?;
        Some(match self.rules.swap_memory {
            Some(most) => most.saturating_sub(self.ledger.evicted()).min(there),
            None => there,
        })
    }

    /// The processes that have no work on a GPU where they have memory that can leave.
    fn idle(&self, snapshot: &Snapshot, now: Duration) -> Vec<Idle> {
        let mut entries = snapshot.activity.iter().peekable();
        let mut idle = Vec::new();
        for holder in self.holders(snapshot, now) {
            let place = (holder.client, holder.gpu);
            while entries
                .next_if(|entry| (entry.client, entry.gpu) < place)
                .is_some()
            {}
            let Some(seen) = entries.next_if(|entry| (entry.client, entry.gpu) == place) else {
                continue;
            };
            let (Some(length), Some(agent)) = (seen.idle, self.agent_of(holder.client, snapshot, now)) else {
                continue;
            };
            if holder.swappable > 0 && !holder.alone {
                idle.push(Idle {
                    client: holder.client,
                    gpu: holder.gpu,
                    bytes: holder.swappable,
                    idle: length,
                    phase: seen.phase,
                    stays: now.saturating_sub(agent.back),
                    times: agent.times,
                    uses: seen.uses,
                });
            }
        }
        idle
    }

    /// The processes that have work on a GPU.
    fn busy(&self, snapshot: &Snapshot) -> Vec<Busy> {
        let at_work = snapshot.activity.iter().filter(|seen| seen.idle.is_none());
        let busy = |seen: &Activity| Busy {
            client: seen.client,
            gpu: seen.gpu,
            warps: launched(seen).unwrap_or(u64::MAX),
            lasts: seen.lasts,
        };
        at_work.map(busy).collect()
    }

    /// The client's agent, if it may be given an order now.
    pub(super) fn agent_of(&self, client: ClientId, snapshot: &Snapshot, now: Duration) -> Option<Agent> {
        let entry = self.clients.get(&client)?;
        let free = entry.agent.given.is_none() && entry.swap_order.is_none();
        let listens = snapshot.listening.contains(&client);
        (free && listens && now >= entry.agent.not_before).then_some(entry.agent)
    }

    /// The requests that do not fit, and what they lack: those that grow first, then the longest wait.
    pub(super) fn lacks(&self, covered: &[Option<u64>], snapshot: &Snapshot, now: Duration) -> Vec<Lack> {
        let colocation = Colocation::of(&self.ledger);
        let mut waiting: Vec<&Waiting> = self.queue.iter().collect();
        waiting.sort_by_key(|waiting| (!waiting.grows(), waiting.since));
        let growing = waiting.iter().filter(|waiting| waiting.grows());
        let growing = growing.map(|waiting| waiting.gpus).collect::<GpuSet>();
        let lack = |waiting: &&Waiting| {
            let open = |gpu: &usize| {
                let is_meant = waiting.gpus.contains(gpu) && !colocation.is_closed(*gpu, waiting.client);
                // No newcomer goes where growth waits.
                is_meant && (waiting.grows() || !growing.contains(gpu))
            };
            let lacking = |gpu: usize| (gpu, self.lacking(waiting, covered, gpu));
            let gpus: Vec<(usize, u64)> = (0..self.ledger.gpus().len()).filter(open).map(lacking).collect();
            // What fits somewhere waits for something else.
            let fits = gpus.iter().any(|(_, bytes)| *bytes == 0) || self.wants_alone(waiting);
            (!fits && !gpus.is_empty()).then(|| Lack {
                client: waiting.client,
                waited: waiting.waits(now),
                warps: warps_of(waiting, snapshot),
                gpus,
            })
        };
        waiting.iter().take(MOST_LACKS).filter_map(lack).collect()
    }

    /// Bytes that a request lacks on a GPU.
    fn lacking(&self, waiting: &Waiting, covered: &[Option<u64>], gpu: usize) -> u64 {
        if waiting.grows() {
            let beyond = self.ledger.beyond_headroom(waiting.key(), waiting.bytes);
            let in_ledger = beyond.saturating_sub(self.ledger.room(gpu));
            let shown = covered[gpu].map_or(0, |shown| waiting.bytes.saturating_sub(shown));
            in_ledger.max(shown)
        } else {
            let cost = self.ledger.cost(waiting.client, gpu, waiting.expected_bytes);
            cost.saturating_sub(self.room_to_begin(covered, gpu))
        }
    }
}

/// Warps of the largest kernel that a process has launched on a GPU, if it says so.
fn launched(seen: &Activity) -> Option<u64> {
    (seen.warps > 0).then_some(seen.warps)
}

/// Warps of the largest launch that a request is for: as its need has it, or as its process has launched
/// before. All there are where neither is known.
fn warps_of(waiting: &Waiting, snapshot: &Snapshot) -> u64 {
    let own = snapshot
        .activity
        .iter()
        .filter(|seen| seen.client == waiting.client);
    let before = || own.filter_map(launched).max();
    waiting.request.need.warps().or_else(before).unwrap_or(u64::MAX)
}
