//! What holds for users, and what they have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;
use crate::quota::{Account, Amount, Limits, Owner};

/// What the broker knows of quotas.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    pub(super) by_user: BTreeMap<u32, Account>,
    /// Any of them has limits.
    pub(super) limits: bool,
    /// Some GPU is kept from any of them.
    pub(super) kept: bool,
    /// There were clients of several users.
    pub(super) several: bool,
    /// What those who are limited have, as of this round.
    pub(super) has: BTreeMap<Owner, Amount>,
    /// Requests that go beyond a quota, since nobody else who shares it can go on.
    pub(super) beyond: BTreeSet<TaskKey>,
    /// Room that is being reclaimed, by its number: whose it was, and what the user has by it until the
    /// driver shows it free.
    pub(super) reclaiming: BTreeMap<u64, (u32, Amount)>,
    /// Who has a GPU for himself, as of this round.
    pub(super) alone: BTreeSet<(ClientId, usize)>,
    /// Processes of each user on each GPU, as of this round; `None` where places are plenty.
    pub(super) places: Option<BTreeMap<(u32, usize), u32>>,
    /// GPUs where idle memory stays since its users may have no more in the host, as of the
    /// last whole round.
    pub(super) kept_by_swap: GpuSet,
    /// Tasks that may wait, of those for whom that is limited.
    pub(super) waiting: BTreeMap<Owner, u64>,
    /// Until when waiting tasks were last counted.
    pub(super) counted_waiting: Duration,
    /// When something of a user was granted last.
    pub(super) served: BTreeMap<u32, Duration>,
}

impl Accounts {
    /// The limits that a user's programs keep.
    pub(super) fn limits(&self, uid: u32) -> &[(Owner, Limits)] {
        self.by_user
            .get(&uid)
            .map_or(&[], |account| account.limits.as_slice())
    }

    /// Finds out who may have how many tasks waiting: what holds for users has changed.
    pub(super) fn limit_waiting(&mut self) {
        let limits = self.by_user.values().flat_map(|account| &account.limits);
        self.waiting = limits
            .filter_map(|(owner, limits)| Some((*owner, limits.waiting?)))
            .collect();
    }

    /// What holds for a user.
    pub(super) fn weight(&self, uid: u32) -> u32 {
        self.by_user.get(&uid).map_or(1, |account| account.weight)
    }
}
