//! The arena: one reservation of addresses, in which every object keeps its address until it is freed.
//!
//! Addresses come in granules of 2 MiB, the smallest piece of physical memory. A run of granules that is
//! backed and released as one is an *extent*: a large object has one of its own, small objects of one task
//! share extents of one granule (a [`Pool`]). Nothing here knows of tasks or of memory.

use mgb_probe::need::GRANULE;

use crate::free_list::FreeList;

/// Objects of this size and more get an extent of their own.
pub const SMALL: u64 = 1 << 20;
/// Alignment of every object: CUDA promises 256 bytes, and gives what textures of linear memory ask for.
pub const ALIGN: u64 = 512;

/// Hands out runs of granules.
#[derive(Debug)]
pub struct Arena {
    base: u64,
    bytes: u64,
    free: FreeList,
    /// Addresses behind every run that stay without memory.
    guard: u64,
}

impl Arena {
    /// An arena over reserved addresses; both are multiples of the granule.
    pub fn new(base: u64, bytes: u64) -> Arena {
        let mut free = FreeList::default();
        free.give(base, bytes);
        Arena {
            base,
            bytes,
            free,
            guard: 0,
        }
    }

    /// An arena that leaves a granule without memory behind every run, to catch accesses past its
    /// end.
    pub fn guarded(base: u64, bytes: u64) -> Arena {
        Arena {
            guard: GRANULE,
            ..Arena::new(base, bytes)
        }
    }

    /// Whether there are guards.
    pub fn is_guarded(&self) -> bool {
        self.guard != 0
    }

    /// Its first address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether the address lies in the arena.
    pub fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < self.bytes
    }

    /// A run of granules for `bytes`; address and length.
    pub fn take(&mut self, bytes: u64) -> Option<(u64, u64)> {
        let length = extent_bytes(bytes)?;
        Some((self.free.take(length.checked_add(self.guard)?)?, length))
    }

    /// Takes a run back.
    pub fn give(&mut self, address: u64, length: u64) {
        self.free.give(address, length + self.guard);
    }
}

/// The granules that small objects of one task share.
#[derive(Debug)]
pub struct Pool {
    free: FreeList,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool {
            free: FreeList::fenced(GRANULE),
        }
    }
}

/// Bytes of the extent that an object of so many bytes has, or shares. `None`: no number holds them.
pub fn extent_bytes(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(GRANULE)
}

/// Where the extent begins that an object lies in.
pub fn extent_of(object: u64) -> u64 {
    // Extents begin at granules, and an object that does not begin with its extent ends in the first granule.
    object / GRANULE * GRANULE
}

impl Pool {
    /// Finds room for a small object in an existing granule; returns the address.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        self.free.take(span(bytes))
    }

    /// Whether an existing granule has room for a small object.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.free.holds(span(bytes))
    }

    /// The address of an object: a small one's in a granule of the pool, else where an extent begins. `extent`
    /// makes one, where that takes one.
    pub fn place(&mut self, bytes: u64, extent: impl FnOnce() -> Option<u64>) -> Option<u64> {
        if bytes >= SMALL {
            return extent();
        }
        if let Some(address) = self.take(bytes) {
            return Some(address);
        }
        self.free.give(extent()?, GRANULE);
        self.take(bytes)
    }

    /// An object is gone: the start of the extent in which there is none any more, and which is no part of the
    /// pool.
    pub fn give(&mut self, address: u64, bytes: u64) -> Option<u64> {
        if bytes >= SMALL {
            return Some(address);
        }
        let (start, length) = self.free.give(address, span(bytes));
        if length < GRANULE {
            return None;
        }
        self.free.remove(start, length);
        Some(start)
    }

    /// Takes over another pool's granules.
    pub fn absorb(&mut self, other: Pool) {
        self.free.absorb(other.free);
    }
}

/// Bytes that a small object takes of its granule.
fn span(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(ALIGN)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const BASE: u64 = 1 << 44;

    #[test]
    fn sizes_that_cannot_be_rounded_are_refused() {
        let mut arena = Arena::new(BASE, 16 * GRANULE);
        assert_eq!(arena.take(u64::MAX), None);
        assert_eq!(arena.take(17 * GRANULE), None);
        assert_eq!(arena.take(1), Some((BASE, GRANULE)));
        assert!(arena.contains(BASE + 16 * GRANULE - 1) && !arena.contains(BASE + 16 * GRANULE));
        assert!(!arena.contains(0));
    }

    proptest! {
        /// Objects never overlap, are aligned, and when all are freed every granule is back.
        #[test]
        fn objects_have_places_of_their_own(
            steps in prop::collection::vec((any::<bool>(), 1u64..3 * GRANULE, 1u64..4096, any::<prop::sample::Index>()), 1..300)
        ) {
            let whole = 512 * GRANULE;
            let mut arena = Arena::new(BASE, whole);
            let mut pool = Pool::default();
            let mut live: BTreeMap<u64, u64> = BTreeMap::new();
            let mut extents: BTreeMap<u64, u64> = BTreeMap::new();
            for (take, large, small, pick) in steps {
                let bytes = if pick.index(3) == 0 { large } else { small };
                if take || live.is_empty() {
                    let has_room = bytes < SMALL && pool.has_room(bytes);
                    let known = extents.len();
                    let at = pool.place(bytes, || {
                        let (start, length) = arena.take(bytes)?;
                        assert_eq!(Some(length), extent_bytes(bytes));
                        extents.insert(start, length);
                        Some(start)
                    });
                    let at = at.unwrap();
                    prop_assert_eq!(extents.len() == known, has_room);
                    prop_assert!(at + bytes <= extent_of(at) + extents[&extent_of(at)]);
                    prop_assert_eq!(at % ALIGN, 0);
                    prop_assert!(arena.contains(at) && arena.contains(at + bytes - 1));
                    if let Some((&before, &length)) = live.range(..=at).next_back() {
                        prop_assert!(before + length <= at);
                    }
                    if let Some((&after, _)) = live.range(at..).next() {
                        prop_assert!(at + bytes <= after);
                    }
                    live.insert(at, bytes);
                } else {
                    let at = *live.keys().nth(pick.index(live.len())).unwrap();
                    release(&mut arena, &mut pool, &mut extents, at, live.remove(&at).unwrap());
                }
            }
            for (at, bytes) in live {
                release(&mut arena, &mut pool, &mut extents, at, bytes);
            }
            prop_assert!(extents.is_empty());
            prop_assert_eq!(arena.take(whole), Some((BASE, whole)));
        }
    }

    fn release(arena: &mut Arena, pool: &mut Pool, extents: &mut BTreeMap<u64, u64>, at: u64, bytes: u64) {
        if let Some(start) = pool.give(at, bytes) {
            assert_eq!(start, extent_of(at));
            arena.give(start, extents.remove(&start).expect("it was made"));
        }
    }
}
