//! Quotas: what users and groups may have at once ([`crate::quota`]).
//!
//! A request with which somebody would have more than that is suspended: it waits for
//! its own user's programs, not for the GPUs. One that is beyond the quota by itself is refused, as one that
//! no GPU can hold.
//!
//! A program that holds something and waits for more must not wait for ever. Where all programs that share a
//! quota and hold something wait, the eldest of those whose requests it suspends goes beyond it, to twice the bytes
//! and tasks at most: what all others hold is within the quota, and what one holds is too, but for the tasks
//! of a single program, which is refused then.

use std::collections::BTreeMap;

use mgb_probe::limited::Limited;
use mgb_probe::wire::{Op, Reply, Request};

use super::{Accounts, amounts};
use crate::broker::answer::over_quota;
use crate::broker::books::Books;
use crate::broker::queue::{RequestQueue, SuspendReason, SuspendedRequest, Waiting};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;
use crate::quota::{Amount, Beyond, Limits, Owner};

/// Requests of one user that are considered at once although its quota may hold for fewer: with thousands,
/// all of them would be looked at each time that one of its tasks ends.
const MAX_CONSIDERED: usize = 64;

impl Accounts {
    /// Counts what those who are limited have; false: no user is. `on_their_way`: bytes that clients were ordered to
    /// bring to the host and have not said that they did.
    pub(in crate::broker) fn count_amounts(
        &mut self,
        books: &Books,
        on_their_way: impl Iterator<Item = (ClientId, u64)>,
    ) -> bool {
        if !self.has_limits {
            self.amounts.clear();
            return false;
        }
        let alone = books
            .ledger
            .tasks()
            .filter(|(_, holding)| holding.keeps_others_out());
        self.alone = alone.map(|(key, holding)| (key.client, holding.gpu)).collect();
        let mut sums: BTreeMap<Owner, Amount> = BTreeMap::new();
        let mut add = |uid: u32, amount: Amount| {
            for (owner, _) in self.limits(uid) {
                let sum = sums.entry(*owner).or_default();
                *sum = sum.and(amount);
            }
        };
        let user = |client| books.clients.user(client);
        for (key, holding) in books.ledger.tasks() {
            let has_it_alone = self.alone.contains(&(key.client, holding.gpu));
            add(
                user(key.client),
                amounts::of_task(books, key, holding, has_it_alone),
            );
        }
        for (client, gpu) in &self.alone {
            add(user(*client), amounts::whole_gpu(books, *client, *gpu));
        }
        for (client, gpu, bytes) in books.ledger.contexts() {
            let amount = Amount {
                bytes: bytes.saturating_add(books.ledger.taken_by(client, gpu)),
                gpus: GpuSet::of(gpu),
                processes: 1,
                ..Amount::default()
            };
            add(user(client), amount);
        }
        for (client, bytes) in on_their_way {
            add(user(client), amounts::swapped(bytes));
        }
        for (uid, amount) in self.reclaiming.values() {
            add(*uid, *amount);
        }
        self.amounts = sums;
        true
    }

    /// What a request asks for on a GPU.
    fn asks(&self, books: &Books, key: TaskKey, request: &Request, gpu: usize) -> Amount {
        let is_alone = self.alone.contains(&(key.client, gpu));
        amounts::of_request(books, key, request, gpu, is_alone)
    }

    /// The first limit that a user would be beyond with so much more.
    fn beyond(&self, uid: u32, more: Amount, limits: fn(&Limits) -> Limits) -> Option<(Owner, Beyond)> {
        let all = self.limits(uid).iter();
        let mut beyond = all.filter_map(|(owner, own)| {
            let has = self.amounts.get(owner).copied().unwrap_or_default();
            Some((*owner, limits(own).beyond(has.and(more))?))
        });
        beyond.next()
    }

    /// Why a request that may go to these GPUs is beyond its user's quota whatever else the user has; `None`:
    /// it is not.
    pub(in crate::broker) fn over_quota_alone(
        &self,
        books: &Books,
        key: TaskKey,
        request: &Request,
        gpus: GpuSet,
    ) -> Option<Reply> {
        let limits = self.limits(books.clients.user(key.client));
        if limits.is_empty() {
            return None;
        }
        // Contexts stay as long as the process; of a growing task, all that it has.
        let mut own = amounts::of_contexts(books, key.client);
        own.bytes += books.ledger.task(key).map_or(0, |holding| holding.reserved);
        let alone = |gpu: usize| {
            let amount = own.and(self.asks(books, key, request, gpu));
            let mut beyond = limits.iter().filter_map(|(_, limits)| limits.beyond(amount));
            beyond.next()
        };
        let mut why = None;
        for gpu in books.among(gpus) {
            why = Some(alone(gpu)?);
        }
        why.map(over_quota)
    }

    /// The limits that a request keeps.
    fn in_force(&self, key: TaskKey) -> fn(&Limits) -> Limits {
        if self.beyond.contains(&key) {
            Limits::doubled
        } else {
            Limits::clone
        }
    }

    /// Whose quota keeps a request from all of these GPUs, and what of it; `None`: it may go to one of them.
    pub(in crate::broker) fn over_quota(
        &self,
        books: &Books,
        key: TaskKey,
        request: &Request,
        gpus: GpuSet,
    ) -> Option<(Owner, Limited)> {
        if !self.has_limits {
            return None;
        }
        let (uid, limits) = (books.clients.user(key.client), self.in_force(key));
        if request.op != Op::Begin {
            let gpu = books.ledger.task(key)?.gpu;
            return self
                .beyond(uid, self.asks(books, key, request, gpu), limits)
                .map(|(owner, beyond)| (owner, beyond.what));
        }
        let mut quota = None;
        for gpu in books.among(gpus) {
            let more = self.asks(books, key, request, gpu);
            let (owner, beyond) = self.beyond(uid, more, limits)?;
            quota = Some((owner, beyond.what));
        }
        quota
    }

    /// Of these GPUs, those where its user's quotas let a request to begin go.
    pub(in crate::broker) fn within_quota(&self, books: &Books, waiting: &Waiting, among: GpuSet) -> GpuSet {
        let (key, request) = (waiting.key(), &waiting.request);
        if !self.has_limits {
            return among;
        }
        let (uid, limits) = (books.clients.user(key.client), self.in_force(key));
        let may = |gpu: &usize| {
            let more = self.asks(books, key, request, *gpu);
            self.beyond(uid, more, limits).is_none()
        };
        books.among(among).filter(may).collect()
    }

    /// Whether a growth keeps to its user's quotas.
    pub(in crate::broker) fn may_grow(&self, books: &Books, waiting: &Waiting) -> bool {
        self.over_quota(books, waiting.key(), &waiting.request, waiting.gpus)
            .is_none()
    }

    /// Whether a user's programs may be on that GPU too.
    pub(in crate::broker) fn may_be_on(&self, uid: u32, gpu: usize) -> bool {
        let there = Amount {
            gpus: GpuSet::of(gpu),
            ..Amount::default()
        };
        let beyond = self.beyond(uid, there, |limits| Limits {
            gpus: limits.gpus,
            ..Limits::default()
        });
        beyond.is_none() && self.usable(uid).contains(gpu)
    }

    /// A request is about to be granted: what its user has is more by that.
    pub(in crate::broker) fn count_grant(&mut self, books: &Books, waiting: &Waiting, gpu: usize) {
        self.count_place(books, waiting.client, gpu);
        if !self.has_limits {
            return;
        }
        let more = self.asks(books, waiting.key(), &waiting.request, gpu);
        self.beyond.remove(&waiting.key());
        if books.wants_alone(&waiting.request) {
            self.alone.insert((waiting.client, gpu));
        }
        self.add_to(books.clients.user(waiting.client), more);
    }

    /// A user has so much more in this round.
    pub(super) fn add_to(&mut self, uid: u32, more: Amount) {
        let account = self.by_user.get(&uid).into_iter();
        for (owner, _) in account.flat_map(|account| &account.limits) {
            let sum = self.amounts.entry(*owner).or_default();
            *sum = sum.and(more);
        }
    }

    /// Whether enough of the user's requests are considered without this one.
    pub(in crate::broker) fn are_enough(
        &self,
        books: &Books,
        queue: &RequestQueue,
        suspended: &SuspendedRequest,
    ) -> bool {
        let uid = books.clients.user(suspended.client);
        let own = queue
            .pending
            .iter()
            .filter(|other| books.clients.user(other.client) == uid);
        suspended.reason.is_of_user() && own.take(MAX_CONSIDERED).count() == MAX_CONSIDERED
    }

    /// By owner of a quota that suspends requests of programs that hold something: the eldest of those.
    pub(in crate::broker) fn eldest_over_quota(
        &self,
        books: &Books,
        queue: &RequestQueue,
    ) -> BTreeMap<Owner, ClientId> {
        let waits = queue
            .suspended
            .iter()
            .filter_map(|suspended| match suspended.reason {
                SuspendReason::Quota(owner, _) if !books.ledger.holds_nothing(suspended.client) => {
                    Some((owner, suspended.client))
                }
                _ => None,
            });
        let mut eldest: BTreeMap<Owner, ClientId> = BTreeMap::new();
        for (owner, client) in waits {
            let first = eldest.entry(owner).or_insert(client);
            *first = client.min(*first);
        }
        eldest
    }

    /// The programs that share the quota, hold something, and are not suspended.
    pub(in crate::broker) fn sharing<'a>(
        &'a self,
        books: &'a Books,
        owner: Owner,
    ) -> impl Iterator<Item = ClientId> + 'a {
        let shares = move |uid| self.limits(uid).iter().any(|(other, _)| *other == owner);
        let clients = books.clients.iter().filter(move |(_, entry)| shares(entry.uid()));
        clients
            .map(|(client, _)| client)
            .filter(|client| !books.is_suspended(*client) && !books.ledger.holds_nothing(*client))
    }

    /// Has a suspended request go beyond its quota, up to twice as much. Returns the limit that it would be beyond even
    /// so; then it may not.
    pub(in crate::broker) fn let_beyond(
        &mut self,
        books: &Books,
        suspended: &SuspendedRequest,
    ) -> Option<Beyond> {
        let beyond = self.beyond_twice(books, suspended);
        if beyond.is_none() {
            self.beyond.insert(suspended.key());
        }
        beyond
    }

    fn beyond_twice(&self, books: &Books, suspended: &SuspendedRequest) -> Option<Beyond> {
        let uid = books.clients.user(suspended.client);
        let beyond = |gpu| {
            let more = self.asks(books, suspended.key(), &suspended.request, gpu);
            self.beyond(uid, more, Limits::doubled).map(|(_, beyond)| beyond)
        };
        let mut all = books.among(suspended.fit).map(beyond);
        let first = all.next().flatten()?;
        all.all(|beyond| beyond.is_some()).then_some(first)
    }
}
