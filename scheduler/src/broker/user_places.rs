//! Places for processes: a GPU takes so many at once ([`super::Rules::max_processes`]), and a context has one
//! as long as its process lives, at work or not. So that idle notebooks of one do not keep everybody else
//! out, no user of several has more than half of a GPU's places by processes that begin there. What would be
//! beyond that is held back ([`super::hold_back`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use mgb_probe::view::IdleView;

use super::Broker;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;

impl Broker {
    /// The places on a GPU that one of several users may have.
    fn most_places(&self) -> u32 {
        (self.rules.max_processes / 2).max(1)
    }

    /// Counts each user's places, where one could have more than his part; false: none could.
    pub(super) fn counts_places(&mut self) -> bool {
        self.accounts.places = None;
        let most = u64::from(self.most_places());
        let waiting = (self.queue.waiters().len() + self.held.len()) as u64;
        let is_scarce = |gpu: usize| u64::from(self.ledger.processes(gpu)) + waiting > most;
        if !self.has_several_users() || self.ledger.blind() || !(0..self.ledger.gpus().len()).any(is_scarce) {
            return false;
        }
        let mut places: BTreeMap<(u32, usize), u32> = BTreeMap::new();
        for (client, gpu, _) in self.ledger.contexts() {
            *places.entry((self.user(client), gpu)).or_default() += 1;
        }
        self.accounts.places = Some(places);
        self.is_any_full()
    }

    /// Whether any user has all places on a GPU that one may have.
    pub(super) fn is_any_full(&self) -> bool {
        let counts = self.accounts.places.iter().flat_map(BTreeMap::values);
        counts.into_iter().any(|count| *count >= self.most_places())
    }

    /// Of these GPUs, those where the client's user may have one more place. A process that has something
    /// already goes anywhere: others wait for what it holds, its user's own among them.
    pub(super) fn with_place(&self, client: ClientId, gpus: GpuSet) -> GpuSet {
        let Some(places) = &self.accounts.places else {
            return gpus;
        };
        if !self.contexts_of(client).is_empty() {
            return gpus;
        }
        let uid = self.user(client);
        let own = places.range((uid, 0)..=(uid, usize::MAX));
        let full = own.filter(|(_, count)| **count >= self.most_places());
        let full: GpuSet = full.map(|((_, gpu), _)| *gpu).collect();
        gpus & !full
    }

    /// Who has places on a GPU and runs nothing there, where half of all are taken: the most first.
    pub fn idle_views(&self, gpu: usize) -> Vec<IdleView> {
        if self.ledger.processes(gpu) < self.most_places() {
            return Vec::new();
        }
        let at_work: BTreeSet<ClientId> = self
            .ledger
            .tasks()
            .filter(|(_, held)| held.gpu == gpu && held.running)
            .map(|(key, _)| key.client)
            .collect();
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for (client, _, _) in self.ledger.contexts().filter(|(_, there, _)| *there == gpu) {
            if !at_work.contains(&client) {
                *counts.entry(self.user(client)).or_default() += 1;
            }
        }
        let mut idle: Vec<IdleView> = counts
            .into_iter()
            .map(|(uid, processes)| IdleView { uid, processes })
            .collect();
        idle.sort_by_key(|idle| Reverse(idle.processes));
        idle
    }

    /// A request of the client is about to be granted there.
    pub(super) fn count_place(&mut self, client: ClientId, gpu: usize) {
        let uid = self.user(client);
        if !self.ledger.has_context(client, gpu)
            && let Some(places) = &mut self.accounts.places
        {
            *places.entry((uid, gpu)).or_default() += 1;
        }
    }
}
