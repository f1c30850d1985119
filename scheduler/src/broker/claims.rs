//! Claims: what comes free on a stalled GPU is for the process for which others make room there.
//!
//! A process that was swapped out asks for its tasks one after the other, as it uses them. What it asks for next
//! may be small and fit into what it has just given up. Without a claim it would take that back each time, and
//! those that need more would never have it.

use std::time::Duration;

use super::Broker;
use crate::client::ClientId;
use crate::deadlock::{self, Holder};
use crate::gpu_set::GpuSet;
use crate::policies::Claim;

impl Broker {
    /// Another process, or another task of the same one, makes room on the GPU for this one.
    pub(super) fn claim(&mut self, gpu: usize, client: ClientId, victim: ClientId) {
        let is_elder = victim < client;
        let claim = self.claims.get(&gpu).filter(|claim| claim.client == client);
        let over_elders = is_elder || claim.is_some_and(|claim| claim.over_elders);
        self.claims.insert(gpu, Claim { client, over_elders });
    }

    /// Whether what is free on the GPU is for others than this client.
    pub(super) fn is_claimed(&self, gpu: usize, client: ClientId) -> bool {
        self.claims.get(&gpu).is_some_and(|claim| !claim.lets(client))
    }

    /// Drops the claims of processes that do not wait any more, or for which no room can be made, and those on GPUs
    /// where somebody can go on again.
    pub(super) fn drop_claims(
        &mut self,
        holders: &[Holder],
        stalled: GpuSet,
        covered: &[Option<u64>],
        now: Duration,
    ) {
        if self.claims.is_empty() {
            return;
        }
        let (blocked, rooms) = (self.blocked(now), self.rooms(covered));
        let makes_room = |gpu: usize| {
            let orders = self.clients.values().filter_map(|client| client.swap_order);
            orders.into_iter().any(|order| order.gpu == gpu)
        };
        let stands = |gpu: usize, claim: &Claim| {
            let can_be_met = |request: &&deadlock::Blocked| {
                request.client == claim.client
                    && request.gpus.contains(gpu)
                    && deadlock::can_make_room(holders, request, &rooms, gpu, claim.over_elders)
            };
            (stalled.contains(gpu) || makes_room(gpu)) && blocked.iter().any(|request| can_be_met(&request))
        };
        let over: Vec<usize> = self
            .claims
            .iter()
            .filter(|(gpu, claim)| !stands(**gpu, claim))
            .map(|(gpu, _)| *gpu)
            .collect();
        for gpu in over {
            self.claims.remove(&gpu);
        }
    }
}
