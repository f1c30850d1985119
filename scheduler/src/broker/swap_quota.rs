//! Host memory that users and groups may have for what leaves the GPUs (`swap` in [`crate::quota`]). Memory
//! that is beyond it stays where it is, whoever waits for it, and a process that alone could end a deadlock
//! by going to the host is refused instead.

use mgb_probe::limited::Limited;

use super::Broker;
use crate::client::ClientId;
use crate::eviction::Idle;
use crate::gpu_set::GpuSet;
use crate::quota::{Amount, Beyond, Limits, Owner};

impl Broker {
    /// Bytes of the client's memory that may still go to the host; `None`: any number.
    pub(super) fn swap_room(&self, client: ClientId) -> Option<u64> {
        let limits = self.accounts.limits(self.user(client)).iter();
        let room =
            limits.filter_map(|(owner, limits)| Some(limits.swap?.saturating_sub(self.swapped_of(*owner))));
        room.min()
    }

    /// Bytes that are in the host, or on their way.
    fn swapped_of(&self, owner: Owner) -> u64 {
        self.accounts.has.get(&owner).map_or(0, |has| has.swap)
    }

    /// What clients were ordered to bring to the host and have not said that they did.
    pub(super) fn on_their_way(&self) -> impl Iterator<Item = (ClientId, Amount)> {
        self.clients.iter().filter_map(|(client, entry)| {
            let given = entry.agent.given.filter(|given| !given.moves)?;
            Some((*client, swapped(given.bytes)))
        })
    }

    /// A client was ordered to bring so many bytes to the host.
    pub(super) fn count_swap(&mut self, client: ClientId, bytes: u64) {
        let uid = self.user(client);
        let account = self.accounts.by_user.get(&uid).into_iter();
        for (owner, _) in account.flat_map(|account| &account.limits) {
            let has = self.accounts.has.entry(*owner).or_default();
            *has = has.and(swapped(bytes));
        }
    }

    /// Whether so many bytes of the client's memory may go to the host.
    pub(super) fn may_swap(&self, client: ClientId, bytes: u64) -> bool {
        self.swap_room(client).is_none_or(|room| bytes <= room)
    }

    /// Of idle memory what may go to the host; it is remembered where other memory stays.
    pub(super) fn that_may_swap(&mut self, mut idle: Vec<Idle>) -> Vec<Idle> {
        self.accounts.kept_by_swap = GpuSet::EMPTY;
        if self.has_limits() {
            let mut kept = GpuSet::EMPTY;
            idle.retain(|own| {
                let may = self.may_swap(own.client, own.bytes);
                if !may {
                    kept.insert(own.gpu);
                }
                may
            });
            self.accounts.kept_by_swap = kept;
        }
        idle
    }

    /// Whether on one of these GPUs idle memory stays for the sake of a quota.
    pub(super) fn keeps_swap(&self, gpus: GpuSet) -> bool {
        !(self.accounts.kept_by_swap & gpus).is_empty()
    }

    /// Where only their quota keeps the client's bytes on a GPU: that limit.
    pub(super) fn beyond_swap(&self, client: ClientId, bytes: u64) -> Option<Beyond> {
        let limits = self.accounts.limits(self.user(client)).iter();
        let beyond = |(owner, limits): &(Owner, Limits)| {
            let wanted = self.swapped_of(*owner).saturating_add(bytes);
            let limit = limits.swap.filter(|limit| bytes > 0 && wanted > *limit)?;
            Some(Beyond {
                what: Limited::Swap,
                wanted,
                limit,
            })
        };
        limits.filter_map(beyond).next()
    }
}

fn swapped(bytes: u64) -> Amount {
    Amount {
        swap: bytes,
        ..Amount::default()
    }
}
