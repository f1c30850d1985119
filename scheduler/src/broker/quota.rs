//! Quotas: what users and groups may have at once ([`crate::quota`]).
//!
//! A request with which somebody would have more than that is held back ([`super::hold_back`]): it waits for
//! its own user's programs, not for the GPUs. One that is beyond the quota by itself is refused, as one that
//! no GPU can hold.
//!
//! A program that holds something and waits for more must not wait for ever. Where all programs that share a
//! quota and hold something wait, the eldest of those that it holds back goes beyond it, to twice the bytes
//! and tasks at most: what all others hold is within the quota, and what one holds is too, but for the tasks
//! of a single program, which is refused then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::limited::Limited;
use mgb_probe::need::ALONE;
use mgb_probe::wire::{Op, Reply, Request};

use super::held::{Held, Why};
use super::{Answer, Broker, Snapshot, Waiting};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::{Holding, Reclaiming, TaskKey};
use crate::quota::{Account, Amount, Beyond, Limits, Owner};

/// Requests of one user that are considered at once although its quota may hold for fewer: with thousands,
/// all of them would be looked at each time that one of its tasks ends.
const ENOUGH: usize = 64;

impl Broker {
    /// This holds for a user from now on.
    pub fn has_account(&mut self, uid: u32, account: Account) {
        let accounts = &mut self.accounts.by_user;
        accounts.insert(uid, account);
        self.accounts.several |= accounts.len() > 1;
        self.accounts.limits = accounts.values().any(|account| !account.limits.is_empty());
        self.accounts.kept = accounts.values().any(|account| account.gpus != GpuSet::ALL);
        self.accounts.limit_waiting();
    }

    /// Whether it is known what holds for a user.
    pub fn knows_account(&self, uid: u32) -> bool {
        self.accounts.by_user.contains_key(&uid)
    }

    /// The users who have programs here; what is known of others is forgotten.
    pub fn users(&mut self) -> BTreeSet<u32> {
        let here: BTreeSet<u32> = self.clients.values().map(|client| client.uid).collect();
        self.accounts.by_user.retain(|uid, _| here.contains(uid));
        self.accounts.limit_waiting();
        self.accounts.served.retain(|uid, _| here.contains(uid));
        here
    }

    /// Whether a client's tasks may have a GPU for themselves.
    pub(super) fn may_be_alone(&self, client: ClientId) -> bool {
        let account = self.accounts.by_user.get(&self.user(client));
        account.is_none_or(|account| account.may_be_alone)
    }

    /// Whether anybody is limited.
    pub(super) fn has_limits(&self) -> bool {
        self.accounts.limits
    }

    /// Whether there may be several users.
    pub(super) fn has_several_users(&self) -> bool {
        self.accounts.several
    }

    pub(super) fn user(&self, client: ClientId) -> u32 {
        self.clients.get(&client).map_or(0, |entry| entry.uid)
    }

    /// Counts what those who are limited have; false: nobody is.
    pub(super) fn counts_amounts(&mut self) -> bool {
        if !self.accounts.limits {
            self.accounts.has.clear();
            return false;
        }
        self.accounts.alone = self.alone_places();
        let mut has: BTreeMap<Owner, Amount> = BTreeMap::new();
        let mut add = |client: ClientId, amount: Amount| {
            for (owner, _) in self.accounts.limits(self.user(client)) {
                let sum = has.entry(*owner).or_default();
                *sum = sum.and(amount);
            }
        };
        for (key, held) in self.ledger.tasks() {
            let has_it_alone = self.accounts.alone.contains(&(key.client, held.gpu));
            add(key.client, self.amount_of(key, held, has_it_alone));
        }
        for (client, gpu) in &self.accounts.alone {
            add(*client, self.whole_gpu(*client, *gpu));
        }
        for (client, gpu, bytes) in self.ledger.contexts() {
            let gpus = GpuSet::of(gpu);
            add(
                client,
                Amount {
                    bytes: bytes.saturating_add(self.ledger.taken_by(client, gpu)),
                    gpus,
                    processes: 1,
                    ..Amount::default()
                },
            );
        }
        for (client, amount) in self.on_their_way() {
            add(client, amount);
        }
        for (uid, amount) in self.accounts.reclaiming.values() {
            for (owner, _) in self.accounts.limits(*uid) {
                let sum = has.entry(*owner).or_default();
                *sum = sum.and(*amount);
            }
        }
        self.accounts.has = has;
        true
    }

    /// What a process had is its user's until the driver shows it free: one that only closes its connection
    /// has it still.
    pub(super) fn stays_on_account(&mut self, client: ClientId, lost: &[Reclaiming]) {
        let uid = self.user(client);
        for entry in lost {
            let amount = Amount {
                bytes: entry.bytes,
                gpus: GpuSet::of(entry.gpu),
                ..Amount::default()
            };
            self.accounts.reclaiming.insert(entry.id, (uid, amount));
        }
    }

    /// What a client that has a GPU for itself has by that, beside its context there.
    fn whole_gpu(&self, client: ClientId, gpu: usize) -> Amount {
        let info = &self.ledger.gpus()[gpu];
        let beside = info
            .context_bytes
            .saturating_add(self.ledger.taken_by(client, gpu));
        Amount {
            bytes: info.usable_bytes.saturating_sub(beside),
            alone: 1,
            ..Amount::default()
        }
    }

    /// Who has a GPU for himself.
    fn alone_places(&self) -> BTreeSet<(ClientId, usize)> {
        let alone = self.ledger.tasks().filter(|(_, held)| held.keeps_others_out());
        alone.map(|(key, held)| (key.client, held.gpu)).collect()
    }

    /// What a task has. What a process has where it has the GPU for itself is part of the whole GPU.
    fn amount_of(&self, key: TaskKey, held: &Holding, has_it_alone: bool) -> Amount {
        let arrival = self.ledger.arrival(key).map_or(0, |arrival| arrival.bytes);
        let is_at_rest = !held.running || self.is_suspended(key.client);
        let there = if has_it_alone { 0 } else { held.reserved };
        Amount {
            bytes: there.saturating_add(arrival),
            tasks: u64::from(!is_at_rest),
            swap: held.evicted,
            ..Amount::default()
        }
    }

    /// What a client has.
    pub(super) fn amount_of_client(&self, client: ClientId) -> Amount {
        let tasks = || self.ledger.tasks_of(client);
        let alone = tasks().filter(|(_, held)| held.keeps_others_out());
        let alone: GpuSet = alone.map(|(_, held)| held.gpu).collect();
        let tasks = tasks().map(|(key, held)| self.amount_of(key, held, alone.contains(held.gpu)));
        let gpus = (0..self.ledger.gpus().len()).filter(|gpu| alone.contains(gpu));
        let whole = gpus.map(|gpu| self.whole_gpu(client, gpu));
        tasks.chain(whole).fold(self.contexts_amount(client), Amount::and)
    }

    /// What a client has beside its tasks.
    fn contexts_amount(&self, client: ClientId) -> Amount {
        let contexts = self.ledger.contexts_of(client).map(|gpu| Amount {
            bytes: self.ledger.gpus()[gpu].context_bytes + self.ledger.taken_by(client, gpu),
            gpus: GpuSet::of(gpu),
            processes: 1,
            ..Amount::default()
        });
        contexts.fold(Amount::default(), Amount::and)
    }

    /// What a request asks for on a GPU.
    fn asks(&self, key: TaskKey, request: &Request, gpu: usize) -> Amount {
        let begins = request.op == Op::Begin;
        let is_alone = self.accounts.alone.contains(&(key.client, gpu));
        let wants_alone = begins && request.need.flags & ALONE != 0 && !self.ledger.blind();
        let bytes = if is_alone {
            // All of the GPU is its user's already.
            0
        } else if wants_alone {
            self.rest_of_gpu(key.client, gpu)
        } else if begins {
            self.ledger.cost(key.client, gpu, request.need.reserved_bytes())
        } else {
            request.bytes
        };
        Amount {
            bytes,
            tasks: u64::from(begins),
            gpus: GpuSet::of(gpu),
            processes: u64::from(!self.ledger.has_context(key.client, gpu)),
            alone: u64::from(wants_alone && !is_alone),
            swap: 0,
        }
    }

    /// Bytes of a GPU beside what a client has there.
    fn rest_of_gpu(&self, client: ClientId, gpu: usize) -> u64 {
        let info = &self.ledger.gpus()[gpu];
        let tasks = self.ledger.tasks_of(client).filter(|(_, held)| held.gpu == gpu);
        let context = if self.ledger.has_context(client, gpu) {
            info.context_bytes + self.ledger.taken_by(client, gpu)
        } else {
            0
        };
        let has = tasks.fold(context, |sum, (_, held)| sum.saturating_add(held.reserved));
        info.usable_bytes.saturating_sub(has)
    }

    /// The first limit that a client would be beyond with so much more.
    fn beyond(
        &self,
        client: ClientId,
        more: Amount,
        limits: fn(&Limits) -> Limits,
    ) -> Option<(Owner, Beyond)> {
        let all = self.accounts.limits(self.user(client)).iter();
        let mut beyond = all.filter_map(|(owner, own)| {
            let has = self.accounts.has.get(owner).copied().unwrap_or_default();
            Some((*owner, limits(own).beyond(has.and(more))?))
        });
        beyond.next()
    }

    /// Why a request that may go to these GPUs is beyond its user's quota whatever else the user has; `None`:
    /// it is not.
    pub(super) fn over_quota_alone(&self, key: TaskKey, request: &Request, gpus: GpuSet) -> Option<Reply> {
        let limits = self.accounts.limits(self.user(key.client));
        if limits.is_empty() {
            return None;
        }
        // Contexts stay as long as the process; of a growing task, all that it has.
        let mut own = self.contexts_amount(key.client);
        own.bytes += self.ledger.task(key).map_or(0, |held| held.reserved);
        let alone = |gpu: usize| {
            let amount = own.and(self.asks(key, request, gpu));
            let mut beyond = limits.iter().filter_map(|(_, limits)| limits.beyond(amount));
            beyond.next()
        };
        let mut why = None;
        for gpu in (0..self.ledger.gpus().len()).filter(|gpu| gpus.contains(gpu)) {
            why = Some(alone(gpu)?);
        }
        why.map(over)
    }

    /// The limits that a request keeps.
    fn in_force(&self, key: TaskKey) -> fn(&Limits) -> Limits {
        if self.accounts.beyond.contains(&key) {
            Limits::doubled
        } else {
            Limits::clone
        }
    }

    /// Whose quota keeps a request from all of these GPUs, and what of it; `None`: it may go to one of them.
    pub(super) fn over_quota(
        &self,
        key: TaskKey,
        request: &Request,
        gpus: GpuSet,
    ) -> Option<(Owner, Limited)> {
        if !self.accounts.limits {
            return None;
        }
        let limits = self.in_force(key);
        if request.op != Op::Begin {
            let gpu = self.ledger.task(key)?.gpu;
            return self
                .beyond(key.client, self.asks(key, request, gpu), limits)
                .map(|(owner, beyond)| (owner, beyond.what));
        }
        let mut whose = None;
        for gpu in (0..self.ledger.gpus().len()).filter(|gpu| gpus.contains(gpu)) {
            let more = self.asks(key, request, gpu);
            let (owner, beyond) = self.beyond(key.client, more, limits)?;
            whose = Some((owner, beyond.what));
        }
        whose
    }

    /// Of these GPUs, those where its user's quotas let a request to begin go.
    pub(super) fn within_quota(&self, waiting: &Waiting, among: GpuSet) -> GpuSet {
        let (key, request) = (waiting.key(), &waiting.request);
        if !self.accounts.limits {
            return among;
        }
        let limits = self.in_force(key);
        let may = |gpu: &usize| {
            let more = self.asks(key, request, *gpu);
            self.beyond(key.client, more, limits).is_none()
        };
        let gpus = (0..self.ledger.gpus().len()).filter(|gpu| among.contains(gpu));
        gpus.filter(may).collect()
    }

    /// Whether a growth keeps to its user's quotas.
    pub(super) fn may_grow(&self, waiting: &Waiting) -> bool {
        self.over_quota(waiting.key(), &waiting.request, waiting.gpus)
            .is_none()
    }

    /// Whether the client's user may be on that GPU too.
    pub(super) fn may_be_on(&self, client: ClientId, gpu: usize) -> bool {
        let there = Amount {
            gpus: GpuSet::of(gpu),
            ..Amount::default()
        };
        let beyond = self.beyond(client, there, |limits| Limits {
            gpus: limits.gpus,
            ..Limits::default()
        });
        beyond.is_none() && self.usable(client).contains(gpu)
    }

    /// A request is about to be granted: what its user has is more by that.
    pub(super) fn count_grant(&mut self, waiting: &Waiting, gpu: usize) {
        self.count_place(waiting.client, gpu);
        if !self.accounts.limits {
            return;
        }
        let more = self.asks(waiting.key(), &waiting.request, gpu);
        self.accounts.beyond.remove(&waiting.key());
        if self.wants_alone(waiting) {
            self.accounts.alone.insert((waiting.client, gpu));
        }
        let uid = self.user(waiting.client);
        let owners = self.accounts.by_user.get(&uid).into_iter();
        for (owner, _) in owners.flat_map(|account| &account.limits) {
            let has = self.accounts.has.entry(*owner).or_default();
            *has = has.and(more);
        }
    }

    /// The client asks for nothing any more.
    pub(super) fn drop_beyond(&mut self, client: ClientId) {
        self.accounts.beyond.retain(|key| key.client != client);
    }

    /// Whether enough of the user's requests are considered without this one.
    pub(super) fn are_enough(&self, held: &Held) -> bool {
        let uid = self.user(held.client);
        let own = self.queue.iter().filter(|other| self.user(other.client) == uid);
        matches!(held.why, Why::Quota(..) | Why::Places) && own.take(ENOUGH).count() == ENOUGH
    }

    /// Whether any request waits for what others of its user have.
    pub(super) fn presses_quota(&self) -> bool {
        let waits = |held: &Held| matches!(held.why, Why::Quota(..) | Why::Places);
        self.held.iter().any(waits)
    }

    /// The clients that share a quota for which a request waits.
    pub(super) fn pressed_by_quota(&self) -> impl Iterator<Item = ClientId> {
        let owners = self.held.iter().filter_map(|held| match held.why {
            Why::Quota(owner, _) => Some(owner),
            Why::Person(_) | Why::Lost | Why::Places | Why::OthersGpus => None,
        });
        let owners: BTreeSet<Owner> = owners.collect();
        self.clients
            .iter()
            .filter(move |(_, entry)| {
                let limits = self.accounts.limits(entry.uid).iter();
                !owners.is_empty() && limits.map(|(owner, _)| owner).any(|owner| owners.contains(owner))
            })
            .map(|(client, _)| *client)
    }

    /// Where all who share a quota and hold something wait, lets the eldest go beyond it.
    pub(super) fn let_eldest_beyond(&mut self, snapshot: &Snapshot, now: Duration) {
        let waits = self.held.iter().filter_map(|held| match held.why {
            Why::Quota(owner, _) if self.holds_something(held.client) => Some((owner, held.client)),
            _ => None,
        });
        let mut eldest: BTreeMap<Owner, ClientId> = BTreeMap::new();
        for (owner, client) in waits {
            let first = eldest.entry(owner).or_insert(client);
            *first = client.min(*first);
        }
        for (owner, client) in eldest {
            if self.can_any_go_on(owner, snapshot, now) {
                continue;
            }
            let its = |held: &Held| {
                held.client == client && matches!(held.why, Why::Quota(whose, _) if whose == owner)
            };
            let Some(at) = self.held.iter().position(its) else {
                continue;
            };
            let held = self.held.remove(at);
            match self.beyond_twice(&held) {
                None => {
                    tracing::info!(client, %owner, "all who share its quota wait: it goes beyond it");
                    self.accounts.beyond.insert(held.key());
                    self.let_go_on(&held, now);
                }
                Some(beyond) => {
                    tracing::warn!(client, %owner, "it alone has twice its quota and waits: refused");
                    self.counts.refused += 1;
                    self.overdue.push(Answer {
                        client,
                        cell: held.cell,
                        reply: over(beyond),
                    });
                }
            }
        }
    }

    fn beyond_twice(&self, held: &Held) -> Option<Beyond> {
        let gpus = (0..self.ledger.gpus().len()).filter(|gpu| held.fit.contains(gpu));
        let beyond = |gpu| {
            let more = self.asks(held.key(), &held.request, gpu);
            self.beyond(held.client, more, Limits::doubled)
                .map(|(_, beyond)| beyond)
        };
        let mut all = gpus.map(beyond);
        let first = all.next().flatten()?;
        all.all(|beyond| beyond.is_some()).then_some(first)
    }

    fn holds_something(&self, client: ClientId) -> bool {
        !self.ledger.holds_nothing(client)
    }

    /// Whether any program that shares the quota and holds something can go on without more.
    fn can_any_go_on(&self, owner: Owner, snapshot: &Snapshot, now: Duration) -> bool {
        let shares = |uid| self.accounts.limits(uid).iter().any(|(other, _)| *other == owner);
        let clients = self.clients.iter();
        let mut sharing = clients
            .filter(|(client, entry)| shares(entry.uid) && !self.is_suspended(**client))
            .map(|(client, _)| *client);
        sharing.any(|client| self.holds_something(client) && self.can_client_go_on(client, snapshot, now))
    }

    fn can_client_go_on(&self, client: ClientId, snapshot: &Snapshot, now: Duration) -> bool {
        let queued = self
            .queue
            .of(client)
            .map(|waiting| (waiting.key(), waiting.request.thread));
        let held = self.held.iter().filter(|held| held.client == client);
        let held = held.map(|held| (held.key(), held.request.thread));
        let asking: Vec<(TaskKey, u32)> = queued.chain(held).collect();
        let mut tasks = self.ledger.tasks_of(client);
        asking.is_empty() || tasks.any(|(key, held)| self.can_go_on(key, held, &asking, snapshot, now))
    }
}

pub(super) fn over(beyond: Beyond) -> Reply {
    Reply::OverQuota {
        what: beyond.what,
        wanted: beyond.wanted,
        limit: beyond.limit,
    }
}
