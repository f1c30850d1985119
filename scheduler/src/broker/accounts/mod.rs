//! What users may have and what they have: quotas ([`crate::quota`]), shares, places, and time limits.

mod amounts;
mod fair_share;
mod places;
mod quota;
mod swap_quota;
mod times;
mod views;
mod waiting_quota;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::limited::Limited;
use mgb_probe::wire::{Reply, Request};

use super::answer::over_quota;
use super::books::Books;
use super::queue::{SuspendReason, SuspendedRequest};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;
use crate::quota::{Account, Amount, Beyond, Limits, Owner};

pub(super) use fair_share::FairOrder;

#[cfg(test)]
pub(super) use amounts::of_client as amount_of_client;
pub(super) use places::idle_views;
pub use times::{Late, Times};

/// Most tasks that all clients of one of several users can have in the ledger at once. A task costs mgbd
/// 1.6 KiB with all that is kept of it (the ledger, the journal and its image, what it learns), so that these
/// take 3.2 MiB.
/// Each round of decisions goes through all of them: beside 65,536, grants took others 21 ms, not 0.1 ms.
const MAX_TASKS_OF_USER: usize = 2 << 10;

/// The same where there is one user, who takes nobody's room or time but his own: what an honest program
/// never comes near.
const MAX_TASKS_OF_ONLY_USER: usize = 16 << 10;

/// Tasks that each client may have beside: a program with a few must not fail because of others.
const FEW_TASKS: usize = 16;

/// What holds for users, and what they have.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    by_user: BTreeMap<u32, Account>,
    /// Whether any user has limits.
    has_limits: bool,
    /// Whether some GPU is kept from any user.
    keeps_gpus: bool,
    /// Whether there were clients of several users.
    has_several: bool,
    /// What those who are limited have, as of this round.
    amounts: BTreeMap<Owner, Amount>,
    /// Requests that go beyond a quota, since no other program that shares it can go on.
    beyond: BTreeSet<TaskKey>,
    /// Room that is being reclaimed, by its number: whose it was, and what the user has by it until the
    /// driver shows it free.
    reclaiming: BTreeMap<u64, (u32, Amount)>,
    /// The clients that have a GPU for themselves, as of this round.
    alone: BTreeSet<(ClientId, usize)>,
    /// Processes of each user on each GPU, as of this round; `None` where places are plenty.
    places: Option<BTreeMap<(u32, usize), u32>>,
    /// GPUs where idle memory stays since its users may have no more in the host, as of the last whole round.
    kept_by_swap: GpuSet,
    /// Tasks that may wait, of those for whom that is limited.
    waiting: BTreeMap<Owner, u64>,
    /// Until when waiting tasks were last counted.
    counted_waiting: Duration,
    /// When something of a user was granted last.
    served: BTreeMap<u32, Duration>,
}

impl Accounts {
    /// This holds for a user from now on.
    pub(super) fn set(&mut self, uid: u32, account: Account) {
        let accounts = &mut self.by_user;
        accounts.insert(uid, account);
        self.has_several |= accounts.len() > 1;
        self.has_limits = accounts.values().any(|account| !account.limits.is_empty());
        self.keeps_gpus = accounts.values().any(|account| account.gpus != GpuSet::ALL);
        self.limit_waiting();
    }

    /// Whether it is known what holds for a user.
    pub(super) fn has(&self, uid: u32) -> bool {
        self.by_user.contains_key(&uid)
    }

    /// What is known of other users than these is forgotten.
    pub(super) fn retain(&mut self, here: &BTreeSet<u32>) {
        self.by_user.retain(|uid, _| here.contains(uid));
        self.limit_waiting();
        self.served.retain(|uid, _| here.contains(uid));
    }

    /// Finds out who may have how many tasks waiting: what holds for users has changed.
    fn limit_waiting(&mut self) {
        let limits = self.by_user.values().flat_map(|account| &account.limits);
        self.waiting = limits
            .filter_map(|(owner, limits)| Some((*owner, limits.waiting?)))
            .collect();
    }

    /// Whether any user is limited.
    pub(super) fn has_limits(&self) -> bool {
        self.has_limits
    }

    /// Whether any GPU is kept from any user.
    pub(super) fn keeps_gpus(&self) -> bool {
        self.keeps_gpus
    }

    /// Whether there may be several users.
    pub(super) fn has_several_users(&self) -> bool {
        self.has_several
    }

    /// The limits that a user's programs keep.
    fn limits(&self, uid: u32) -> &[(Owner, Limits)] {
        self.by_user
            .get(&uid)
            .map_or(&[], |account| account.limits.as_slice())
    }

    /// The user's part of what several want.
    fn weight(&self, uid: u32) -> u32 {
        self.by_user.get(&uid).map_or(1, |account| account.weight)
    }

    /// Whether a user's tasks may have a GPU for themselves.
    pub(super) fn may_be_alone(&self, uid: u32) -> bool {
        let account = self.by_user.get(&uid);
        account.is_none_or(|account| account.may_be_alone)
    }

    /// The highest priority that a user's tasks may have.
    pub(super) fn max_priority(&self, uid: u32) -> u32 {
        let account = self.by_user.get(&uid);
        let most = account.and_then(|account| account.most_priority);
        most.unwrap_or(u32::MAX)
    }

    /// The GPUs that a user's programs may use: those that are not kept for others. Who is at work on another one when
    /// that changes goes on there; nothing begins or goes there any more.
    pub(super) fn usable(&self, uid: u32) -> GpuSet {
        let account = self.by_user.get(&uid);
        account.map_or(GpuSet::ALL, |account| account.gpus)
    }

    /// Whether a user may be allowed more than is known now.
    pub(super) fn is_provisional(&self, uid: u32) -> bool {
        let account = self.by_user.get(&uid);
        account.is_some_and(|account| account.is_provisional)
    }

    /// What a request of a user is told that may go to none of its GPUs.
    pub(super) fn none_usable(&self, books: &Books, uid: u32, request: &Request) -> Reply {
        let all = books.ledger.all_gpus();
        over_quota(Beyond {
            what: Limited::Which,
            wanted: (GpuSet::from_bits(request.gpus) & all).bits(),
            limit: (self.usable(uid) & all).bits(),
        })
    }

    /// Why a client can begin no more tasks; `None`: it can.
    pub(super) fn has_too_many(&self, books: &Books, client: ClientId) -> Option<&'static str> {
        let (ledger, clients) = (&books.ledger, &books.clients);
        let most = if self.has_several {
            MAX_TASKS_OF_USER
        } else {
            MAX_TASKS_OF_ONLY_USER
        };
        // Most of the time all users together have fewer.
        if ledger.count_of(client) < FEW_TASKS || ledger.count() < most {
            return None;
        }
        let user = |client| clients.get(client).map(|entry| entry.uid());
        let own = user(client);
        let others = ledger.counts().filter(|(of, _)| user(*of) == own);
        let of_user: usize = others.map(|(_, count)| count).sum();
        (of_user >= most).then_some("the user has too many tasks at once")
    }

    /// Something of a user was granted.
    pub(super) fn serve(&mut self, uid: u32, now: Duration) {
        self.served.insert(uid, now);
    }

    /// What a process had is its user's until the driver shows it free: one that only closes its connection
    /// has it still.
    pub(super) fn charge_reclaiming(&mut self, uid: u32, lost: &[crate::ledger::Reclaiming]) {
        for entry in lost {
            let amount = Amount {
                bytes: entry.bytes,
                gpus: GpuSet::of(entry.gpu),
                ..Amount::default()
            };
            self.reclaiming.insert(entry.id, (uid, amount));
        }
    }

    /// The driver shows that room free.
    pub(super) fn freed(&mut self, id: u64) {
        self.reclaiming.remove(&id);
    }

    /// The client asks for nothing any more.
    pub(super) fn hang_up(&mut self, client: ClientId) {
        self.beyond.retain(|key| key.client != client);
    }

    /// The client's requests that go beyond a quota.
    pub(super) fn beyond_of(&self, client: ClientId) -> impl Iterator<Item = TaskKey> {
        let first = TaskKey { client, task: 0 };
        let last = TaskKey {
            client,
            task: u64::MAX,
        };
        self.beyond.range(first..=last).copied()
    }

    /// The clients that share a quota for which one of these requests waits.
    pub(super) fn pressed<'a>(
        &self,
        books: &'a Books,
        suspended: impl Iterator<Item = &'a SuspendedRequest>,
    ) -> impl Iterator<Item = ClientId> {
        let owners = suspended.filter_map(|suspended| match suspended.reason {
            SuspendReason::Quota(owner, _) => Some(owner),
            _ => None,
        });
        let owners: BTreeSet<Owner> = owners.collect();
        let is_pressed = move |uid| {
            let limits = self.limits(uid).iter();
            !owners.is_empty() && limits.map(|(owner, _)| owner).any(|owner| owners.contains(owner))
        };
        let clients = books.clients.iter();
        clients.filter_map(move |(client, entry)| is_pressed(entry.uid()).then_some(client))
    }
}

#[cfg(test)]
mod tests;
