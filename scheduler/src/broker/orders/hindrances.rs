//! Memory that is to leave because a person wants it, and what keeps it where it is.

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::view::Hindrance;

use super::agent::Agent;
use crate::broker::books::Books;
use crate::client::ClientId;

/// What a client has on a GPU where it is to have nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::broker) struct LeavingBytes {
    /// Bytes of its tasks there.
    pub(in crate::broker) bytes: u64,
    /// Those of them that stay for as long as the process lives.
    pub(in crate::broker) declared: u64,
    /// Some of its memory, there or elsewhere, is in the host.
    pub(in crate::broker) evicted: bool,
}

impl LeavingBytes {
    /// What keeps the memory there if it cannot be ordered out now; `None`: nothing that is known yet.
    pub(in crate::broker) fn hindrance(&self, agent: &Agent, idle: Option<Duration>) -> Option<Hindrance> {
        if agent.is_deaf && !self.evicted {
            return Some(Hindrance::NoAnswer);
        }
        let failed = agent.failures > 0 || agent.is_deaf;
        let why = if idle.is_none() {
            Hindrance::Busy
        } else {
            Hindrance::Stays
        };
        failed.then_some(why)
    }
}

/// What clients have on GPUs where they are to have nothing: they are suspended, or the GPUs drained.
pub(in crate::broker) fn leaving(books: &Books) -> BTreeMap<(ClientId, usize), LeavingBytes> {
    let mut left = BTreeMap::<(ClientId, usize), LeavingBytes>::new();
    let control = &books.control;
    if control.suspends_none() && control.drained().is_empty() {
        return left;
    }
    for (key, holding) in books.ledger.tasks() {
        if control.drained().contains(holding.gpu) || books.is_suspended(key.client) {
            let there = left.entry((key.client, holding.gpu)).or_default();
            there.bytes += holding.reserved;
            there.declared += if holding.whole_process {
                holding.reserved
            } else {
                0
            };
        }
    }
    left.retain(|_, there| there.bytes > 0);
    for ((client, _), there) in &mut left {
        let mut tasks = books.ledger.tasks_of(*client);
        there.evicted = tasks.any(|(_, holding)| holding.evicted > 0);
    }
    left
}

/// What keeps memory where it is that is to leave, by client and GPU.
#[derive(Debug, Default)]
pub(in crate::broker) struct Leavings(BTreeMap<(ClientId, usize), Hindrance>);

impl Leavings {
    /// Nothing is known to keep memory anywhere.
    pub(in crate::broker) fn clear(&mut self) {
        self.0.clear();
    }

    /// This keeps the client's memory on the GPU.
    pub(in crate::broker) fn note(&mut self, client: ClientId, gpu: usize, hindrance: Hindrance) {
        self.0.insert((client, gpu), hindrance);
    }

    /// What keeps the client's memory on the GPU, if that is known.
    pub(in crate::broker) fn of(&self, client: ClientId, gpu: usize) -> Option<Hindrance> {
        self.0.get(&(client, gpu)).copied()
    }
}
