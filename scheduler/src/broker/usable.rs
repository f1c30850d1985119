//! Which GPUs a user's programs may use ([`crate::quota`]): those that are not kept for others. Who is at
//! work on another one when that changes goes on there; nothing begins or goes there any more.

use std::time::Duration;

use mgb_probe::limited::Limited;
use mgb_probe::wire::{Op, Reply, Request};

use super::held::{Held, Why};
use super::quota::over;
use super::{Answer, Broker};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::quota::Beyond;

impl Broker {
    /// The GPUs that a client may use.
    pub(super) fn usable(&self, client: ClientId) -> GpuSet {
        let account = self.accounts.by_user.get(&self.user(client));
        account.map_or(GpuSet::ALL, |account| account.gpus)
    }

    /// Whether more may be allowed than is known now.
    pub(super) fn is_provisional(&self, client: ClientId) -> bool {
        let account = self.accounts.by_user.get(&self.user(client));
        account.is_some_and(|account| account.is_provisional)
    }

    /// Whether any GPU is kept from anybody.
    pub(super) fn keeps_gpus(&self) -> bool {
        self.accounts.kept
    }

    /// What a request is told that may go to none of its GPUs.
    pub(super) fn none_usable(&self, client: ClientId, request: &Request) -> Reply {
        let all = GpuSet::first_of(self.ledger.gpus().len());
        over(Beyond {
            what: Limited::Which,
            wanted: (GpuSet::from_bits(request.gpus) & all).bits(),
            limit: (self.usable(client) & all).bits(),
        })
    }

    /// Refuses tasks that wait for GPUs which are others' by now.
    pub(super) fn refuse_without_gpu(&mut self) {
        if !self.keeps_gpus() {
            return;
        }
        let is_without =
            |client, fit: GpuSet| (fit & self.usable(client)).is_empty() && !self.is_provisional(client);
        let held = self.held.iter().filter(|held| held.request.op == Op::Begin);
        let held = held.map(|held| (held.client, held.cell, held.fit, held.request));
        let queued = self.queue.iter().filter(|waiting| !waiting.grows());
        let queued = queued.map(|waiting| (waiting.client, waiting.cell, waiting.fit, waiting.request));
        let without: Vec<_> = held
            .chain(queued)
            .filter(|(client, _, fit, _)| is_without(*client, *fit))
            .collect();
        for (client, cell, _, request) in without {
            tracing::info!(client, "its GPUs are kept for others: refused");
            self.queue.remove(client, cell);
            self.held
                .retain(|held| (held.client, held.cell) != (client, cell));
            self.counts.refused += 1;
            let reply = self.none_usable(client, &request);
            self.overdue.push(Answer { client, cell, reply });
        }
    }

    /// A request waits until it is known which GPUs its user may use.
    pub(super) fn hold_until_known(
        &mut self,
        client: ClientId,
        cell: usize,
        request: Request,
        fit: GpuSet,
        since: Duration,
    ) {
        self.held.push(Held {
            client,
            cell,
            request,
            since,
            bytes: request.need.reserved_bytes(),
            fit,
            why: Why::OthersGpus,
        });
    }
}
