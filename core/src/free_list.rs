//! Free ranges of addresses: best fit, lowest address among equals, neighbours joined.

use std::collections::{BTreeMap, BTreeSet};

/// A set of free ranges that do not touch, except at a fence.
#[derive(Debug, Default)]
pub struct FreeList {
    by_address: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    /// Ranges are never joined across multiples of this; 0: no fences.
    fence: u64,
}

impl FreeList {
    /// An empty list whose ranges are not joined across multiples of `fence`.
    pub fn fenced(fence: u64) -> FreeList {
        FreeList {
            fence,
            ..FreeList::default()
        }
    }

    /// Takes `length` bytes; the address.
    pub fn take(&mut self, length: u64) -> Option<u64> {
        let &(found, address) = self.by_length.range((length, 0)..).next()?;
        self.remove(address, found);
        if found > length {
            self.insert(address + length, found - length);
        }
        Some(address)
    }

    /// Whether there is a free range of `length` bytes.
    pub fn holds(&self, length: u64) -> bool {
        self.by_length.range((length, 0)..).next().is_some()
    }

    /// Gives a range back; returns the whole free range it is now part of.
    pub fn give(&mut self, address: u64, length: u64) -> (u64, u64) {
        let (mut start, mut end) = (address, address + length);
        if let Some((&before, &bytes)) = self.by_address.range(..address).next_back() {
            debug_assert!(before + bytes <= address, "given back twice");
            if before + bytes == start && !self.is_fence(start) {
                self.remove(before, bytes);
                start = before;
            }
        }
        if let Some(&bytes) = self.by_address.get(&end)
            && !self.is_fence(end)
        {
            self.remove(end, bytes);
            end += bytes;
        }
        self.insert(start, end - start);
        (start, end - start)
    }

    /// Takes exactly this range out, which is free as a whole.
    pub fn remove(&mut self, address: u64, length: u64) {
        let known = self.by_address.remove(&address);
        debug_assert_eq!(known, Some(length));
        self.by_length.remove(&(length, address));
    }

    /// The free ranges, by address.
    #[cfg(test)]
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_address
            .iter()
            .map(|(&address, &length)| (address, length))
    }

    /// Takes all ranges of `other` over.
    pub fn absorb(&mut self, other: FreeList) {
        for (address, length) in other.by_address {
            self.insert(address, length);
        }
    }

    fn is_fence(&self, address: u64) -> bool {
        self.fence != 0 && address.is_multiple_of(self.fence)
    }

    fn insert(&mut self, address: u64, length: u64) {
        self.by_address.insert(address, length);
        self.by_length.insert((length, address));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn best_fit_and_joins() {
        let mut list = FreeList::default();
        list.give(0, 100);
        list.give(200, 30);
        assert_eq!(list.take(30), Some(200));
        assert_eq!(list.take(40), Some(0));
        assert_eq!(list.give(0, 40), (0, 100));
        assert_eq!(list.take(101), None);
    }

    proptest! {
        /// Against a map of single units.
        #[test]
        fn agrees_with_a_bitmap(steps in prop::collection::vec((any::<bool>(), 1u64..20, any::<prop::sample::Index>()), 1..200)) {
            const UNITS: u64 = 256;
            const FENCE: u64 = 64;
            let mut list = FreeList::fenced(FENCE);
            for start in (0..UNITS).step_by(FENCE as usize) {
                list.give(start, FENCE);
            }
            let mut used = [false; UNITS as usize];
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (take, length, pick) in steps {
                if take || held.is_empty() {
                    match list.take(length) {
                        Some(at) => {
                            prop_assert_eq!(at / FENCE, (at + length - 1) / FENCE);
                            for unit in at..at + length {
                                prop_assert!(!used[unit as usize]);
                                used[unit as usize] = true;
                            }
                            held.push((at, length));
                        }
                        None => {
                            let fits = used.chunks(FENCE as usize).any(|block| {
                                block.split(|&unit| unit).any(|free| free.len() as u64 >= length)
                            });
                            prop_assert!(!fits);
                        }
                    }
                } else {
                    let (at, length) = held.swap_remove(pick.index(held.len()));
                    list.give(at, length);
                    used[at as usize..(at + length) as usize].fill(false);
                }
            }
            for (at, length) in held {
                list.give(at, length);
            }
            prop_assert_eq!(list.ranges().count() as u64, UNITS / FENCE);
        }
    }
}
