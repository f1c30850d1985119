//! Places for processes: a GPU takes so many at once ([`ServingRules::max_processes`]), and a context has one
//! as long as its process lives, at work or not. So that idle notebooks of one do not keep everybody else
//! out, no user of several has more than half of a GPU's places by processes that begin there. Requests that would be
//! beyond that are suspended.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use mgb_probe::view::IdleView;

use super::Accounts;
use crate::broker::books::Books;
use crate::broker::rules::ServingRules;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;

/// The places on a GPU that one of several users may have.
fn max_places(rules: &ServingRules) -> u32 {
    (rules.max_processes / 2).max(1)
}

impl Accounts {
    /// Counts each user's places, where one could have more than his part, with so many requests waiting; false: none
    /// could.
    pub(in crate::broker) fn count_places(&mut self, books: &Books, waiting: usize) -> bool {
        self.places = None;
        let ledger = &books.ledger;
        let most = u64::from(max_places(&books.rules));
        let is_scarce = |gpu: usize| u64::from(ledger.processes(gpu)) + waiting as u64 > most;
        if !self.has_several || ledger.blind() || !(0..ledger.gpus().len()).any(is_scarce) {
            return false;
        }
        let mut places: BTreeMap<(u32, usize), u32> = BTreeMap::new();
        for (client, gpu, _) in ledger.contexts() {
            *places.entry((books.clients.user(client), gpu)).or_default() += 1;
        }
        self.places = Some(places);
        self.is_any_full(&books.rules)
    }

    /// Whether any user has all places on a GPU that one may have.
    pub(in crate::broker) fn is_any_full(&self, rules: &ServingRules) -> bool {
        let counts = self.places.iter().flat_map(BTreeMap::values);
        counts.into_iter().any(|count| *count >= max_places(rules))
    }

    /// Of these GPUs, those where the client's user may have one more place. A process that has something
    /// already goes anywhere: others wait for what it holds, its user's own among them.
    pub(in crate::broker) fn with_place(&self, books: &Books, client: ClientId, gpus: GpuSet) -> GpuSet {
        let Some(places) = &self.places else {
            return gpus;
        };
        if !books.ledger.context_gpus(client).is_empty() {
            return gpus;
        }
        let uid = books.clients.user(client);
        let own = places.range((uid, 0)..=(uid, usize::MAX));
        let full = own.filter(|(_, count)| **count >= max_places(&books.rules));
        let full: GpuSet = full.map(|((_, gpu), _)| *gpu).collect();
        gpus & !full
    }

    /// Of these GPUs, those that take a client's task. Where a process has a context on a GPU that is lost,
    /// it is to hear so of the driver, as soon as it can, and does not wait until the GPU is back: the
    /// context will not be.
    pub(in crate::broker) fn open_among(&self, books: &Books, client: ClientId, gpus: GpuSet) -> GpuSet {
        let gpus = gpus & self.usable(books.clients.user(client));
        let open = gpus & !books.control.closed();
        if open.is_empty() {
            gpus & !books.control.drained() & books.ledger.context_gpus(client)
        } else {
            self.with_place(books, client, open)
        }
    }

    /// A request of the client is about to be granted there.
    pub(super) fn count_place(&mut self, books: &Books, client: ClientId, gpu: usize) {
        if !books.ledger.has_context(client, gpu)
            && let Some(places) = &mut self.places
        {
            *places.entry((books.clients.user(client), gpu)).or_default() += 1;
        }
    }
}

/// Who has places on a GPU and runs nothing there, where half of all are taken: the most first.
pub(in crate::broker) fn idle_views(books: &Books, gpu: usize) -> Vec<IdleView> {
    if books.ledger.processes(gpu) < max_places(&books.rules) {
        return Vec::new();
    }
    let at_work: BTreeSet<ClientId> = books
        .ledger
        .tasks()
        .filter(|(_, holding)| holding.gpu == gpu && holding.running)
        .map(|(key, _)| key.client)
        .collect();
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for (client, _, _) in books.ledger.contexts().filter(|(_, there, _)| *there == gpu) {
        if !at_work.contains(&client) {
            *counts.entry(books.clients.user(client)).or_default() += 1;
        }
    }
    let mut idle: Vec<IdleView> = counts
        .into_iter()
        .map(|(uid, processes)| IdleView { uid, processes })
        .collect();
    idle.sort_by_key(|idle| Reverse(idle.processes));
    idle
}
