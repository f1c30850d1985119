//! Claims: what comes free on a stalled GPU is for the process for which others make room there.
//!
//! A process that was swapped out asks for its tasks one after the other, as it uses them. What it asks for next
//! may be small and fit into what it has just given up. Without a claim it would take that back each time, and
//! those that need more would never have it.

use std::collections::BTreeMap;

use crate::client::ClientId;
use crate::policies::Claim;

/// The process for which others make room, by GPU.
#[derive(Debug, Default)]
pub(in crate::broker) struct Claims(BTreeMap<usize, Claim>);

impl Claims {
    /// Another process, or another task of the same one, makes room on the GPU for this one.
    pub(in crate::broker) fn add(&mut self, gpu: usize, client: ClientId, victim: ClientId) {
        let is_elder = victim < client;
        let claim = self.0.get(&gpu).filter(|claim| claim.client == client);
        let over_elders = is_elder || claim.is_some_and(|claim| claim.over_elders);
        self.0.insert(gpu, Claim { client, over_elders });
    }

    pub(in crate::broker) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The claim on a GPU.
    pub(in crate::broker) fn on(&self, gpu: usize) -> Option<Claim> {
        self.0.get(&gpu).copied()
    }

    /// Whether what is free on the GPU is for others than this client.
    pub(in crate::broker) fn keep_out(&self, client: ClientId, gpu: usize) -> bool {
        self.0.get(&gpu).is_some_and(|claim| !claim.lets(client))
    }

    /// Drops the claims that do not stand.
    pub(in crate::broker) fn retain(&mut self, stands: impl Fn(usize, Claim) -> bool) {
        self.0.retain(|gpu, claim| stands(*gpu, *claim));
    }
}
