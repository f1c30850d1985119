//! Claims: what comes free on a stalled GPU is for the process for which others make room there.
//!
//! A process that was swapped out asks for its tasks one after the other, as it uses them. What it asks for next
//! may be small and fit into what it has just given up. Without a claim it would take that back each time, and
//! those that need more would never have it.
//!
//! In the same way what comes free on a GPU is for the latency program for which memory was ordered off it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::policies::Claim;

/// The process for which others make room, by GPU.
#[derive(Debug, Default)]
pub(in crate::broker) struct Claims {
    /// On stalled GPUs.
    stalled: BTreeMap<usize, Claim>,
    /// By GPU: the latency program for which memory leaves, and until when that counts as about to be
    /// granted.
    latency: BTreeMap<usize, (ClientId, Duration)>,
}

impl Claims {
    /// Another process, or another task of the same one, makes room on the GPU for this one.
    pub(in crate::broker) fn add(&mut self, gpu: usize, client: ClientId, victim: ClientId) {
        let is_elder = victim < client;
        let claim = self.stalled.get(&gpu).filter(|claim| claim.client == client);
        let over_elders = is_elder || claim.is_some_and(|claim| claim.over_elders);
        self.stalled.insert(gpu, Claim { client, over_elders });
    }

    /// Memory leaves the GPU for this latency program: until then, what comes free there is for nobody else.
    pub(in crate::broker) fn keep_for(&mut self, gpu: usize, client: ClientId, until: Duration) {
        self.latency.insert(gpu, (client, until));
    }

    /// Whether there is none on a stalled GPU.
    pub(in crate::broker) fn is_empty(&self) -> bool {
        self.stalled.is_empty()
    }

    /// The claim on a GPU.
    pub(in crate::broker) fn on(&self, gpu: usize) -> Option<Claim> {
        let latency = self.latency.get(&gpu).map(|(client, _)| Claim {
            client: *client,
            over_elders: true,
        });
        latency.or_else(|| self.stalled.get(&gpu).copied())
    }

    /// Whether what is free on the GPU is for others than this client.
    pub(in crate::broker) fn keep_out(&self, client: ClientId, gpu: usize) -> bool {
        self.on(gpu).is_some_and(|claim| !claim.lets(client))
    }

    /// Drops the claims on stalled GPUs that do not stand.
    pub(in crate::broker) fn retain(&mut self, stands: impl Fn(usize, Claim) -> bool) {
        self.stalled.retain(|gpu, claim| stands(*gpu, *claim));
    }

    /// Memory is still on its way off these GPUs: what latency programs claim there stands until then.
    pub(in crate::broker) fn renew_latency(&mut self, leaving: GpuSet, until: Duration) {
        for (gpu, (_, stands_until)) in &mut self.latency {
            if leaving.contains(*gpu) {
                *stands_until = until;
            }
        }
    }

    /// Drops those of latency programs that do not stand, by GPU, program and until when they were made.
    pub(in crate::broker) fn retain_latency(&mut self, stands: impl Fn(usize, ClientId, Duration) -> bool) {
        self.latency
            .retain(|gpu, (client, until)| stands(*gpu, *client, *until));
    }
}
