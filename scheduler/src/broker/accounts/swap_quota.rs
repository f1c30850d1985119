//! Host memory that users and groups may have for what leaves the GPUs (`swap` in [`crate::quota`]). Memory
//! that is beyond it stays where it is, whoever waits for it, and a process that alone could end a deadlock
//! by going to the host is refused instead.

use mgb_probe::limited::Limited;

use super::{Accounts, amounts};
use crate::broker::clients::Clients;
use crate::eviction::IdleProcess;
use crate::gpu_set::GpuSet;
use crate::quota::{Beyond, Limits, Owner};

impl Accounts {
    /// Bytes of the user's memory that may still go to the host; `None`: any number.
    fn swap_room(&self, uid: u32) -> Option<u64> {
        let limits = self.limits(uid).iter();
        let room =
            limits.filter_map(|(owner, limits)| Some(limits.swap?.saturating_sub(self.swapped_of(*owner))));
        room.min()
    }

    /// Bytes that are in the host, or on their way.
    fn swapped_of(&self, owner: Owner) -> u64 {
        self.amounts.get(&owner).map_or(0, |amount| amount.swap)
    }

    /// A program of the user was ordered to bring so many bytes to the host.
    pub(in crate::broker) fn count_swap(&mut self, uid: u32, bytes: u64) {
        self.add_to(uid, amounts::swapped(bytes));
    }

    /// Whether so many bytes of the user's memory may go to the host.
    pub(in crate::broker) fn may_swap(&self, uid: u32, bytes: u64) -> bool {
        self.swap_room(uid).is_none_or(|room| bytes <= room)
    }

    /// Of idle memory what may go to the host; it is remembered where other memory stays.
    pub(in crate::broker) fn that_may_swap(
        &mut self,
        clients: &Clients,
        mut idle: Vec<IdleProcess>,
    ) -> Vec<IdleProcess> {
        self.kept_by_swap = GpuSet::EMPTY;
        if self.has_limits {
            let mut kept = GpuSet::EMPTY;
            idle.retain(|own| {
                let may = self.may_swap(clients.user(own.client), own.bytes);
                if !may {
                    kept.insert(own.gpu);
                }
                may
            });
            self.kept_by_swap = kept;
        }
        idle
    }

    /// Whether on one of these GPUs idle memory stays for the sake of a quota.
    pub(in crate::broker) fn keeps_swap(&self, gpus: GpuSet) -> bool {
        !(self.kept_by_swap & gpus).is_empty()
    }

    /// Where only their quota keeps the user's bytes on a GPU: that limit.
    pub(in crate::broker) fn beyond_swap(&self, uid: u32, bytes: u64) -> Option<Beyond> {
        let limits = self.limits(uid).iter();
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
