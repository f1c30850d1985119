//! Memory of a task that is not in the arena: arrays, pools, managed memory. It is charged like the rest.

use mgb_probe::need::GRANULE;

/// Arrays share granules, of which each takes a part of this many bytes or more.
const PART: u64 = 64 << 10;

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonArenaKind {
    /// An array, in bytes that it takes.
    Array,
    /// What a pool or the graphs of a GPU hold, in whole granules.
    Pool,
    /// Managed memory: the driver takes it off the GPU where room is short.
    Managed,
}

/// Where memory in stream order comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A pool, by its handle.
    Pool(usize),
    /// What graphs have on the GPU with this ordinal.
    Graphs(i32),
}

/// How much there is of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Outside {
    arrays: u64,
    pools: u64,
    managed: u64,
    /// Bytes that the task's GPU can hold.
    capacity: u64,
}

impl Default for Outside {
    fn default() -> Outside {
        Outside {
            arrays: 0,
            pools: 0,
            managed: 0,
            capacity: u64::MAX,
        }
    }
}

impl Outside {
    /// The GPU's capacity is known.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    /// More of a kind.
    pub fn add(&mut self, kind: NonArenaKind, bytes: u64) {
        let sum = self.sum(kind);
        *sum = sum.saturating_add(rounded(kind, bytes));
    }

    /// Less of a kind.
    pub fn remove(&mut self, kind: NonArenaKind, bytes: u64) {
        let sum = self.sum(kind);
        *sum = sum.saturating_sub(rounded(kind, bytes));
    }

    fn sum(&mut self, kind: NonArenaKind) -> &mut u64 {
        match kind {
            NonArenaKind::Array => &mut self.arrays,
            NonArenaKind::Pool => &mut self.pools,
            NonArenaKind::Managed => &mut self.managed,
        }
    }

    /// The bytes of arrays and pools, which cannot be evicted.
    pub fn unevictable(&self) -> u64 {
        to_granules(self.arrays).saturating_add(self.pools)
    }

    /// The bytes of managed memory that the GPU may hold beside `unevictable` bytes: never more than its
    /// capacity.
    pub fn managed_beside(&self, unevictable: u64) -> u64 {
        self.managed.min(self.capacity.saturating_sub(unevictable))
    }
}

fn rounded(kind: NonArenaKind, bytes: u64) -> u64 {
    match kind {
        NonArenaKind::Array => bytes.checked_next_multiple_of(PART).unwrap_or(u64::MAX),
        NonArenaKind::Pool | NonArenaKind::Managed => to_granules(bytes),
    }
}

fn to_granules(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_arrays_share_granules() {
        let mut outside = Outside::default();
        for _ in 0..32 {
            outside.add(NonArenaKind::Array, 100);
        }
        assert_eq!(outside.unevictable(), GRANULE);
        outside.add(NonArenaKind::Array, 1);
        assert_eq!(outside.unevictable(), 2 * GRANULE);
        for _ in 0..33 {
            outside.remove(NonArenaKind::Array, 100);
        }
        assert_eq!(outside.unevictable(), 0);
    }

    #[test]
    fn managed_memory_gives_way() {
        let mut outside = Outside::default();
        outside.set_capacity(10 * GRANULE);
        outside.add(NonArenaKind::Managed, 100 * GRANULE);
        assert_eq!(outside.managed_beside(0), 10 * GRANULE);
        assert_eq!(outside.managed_beside(7 * GRANULE), 3 * GRANULE);
        assert_eq!(outside.managed_beside(70 * GRANULE), 0);
        outside.remove(NonArenaKind::Managed, 99 * GRANULE);
        assert_eq!(outside.managed_beside(0), GRANULE);
    }
}
