//! Sets of GPUs by index.

use std::borrow::Borrow;
use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Not};

use serde::{Deserialize, Serialize};

/// A set of GPUs by index, of which a node has at most 64. What travels between processes and what files have is
/// the same set as a number with a bit for each GPU ([`GpuSet::bits`]).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GpuSet(u64);

impl GpuSet {
    /// The set without a GPU.
    pub const EMPTY: GpuSet = GpuSet(0);
    /// The set of all indices, whether or not the node has a GPU of that index.
    pub const ALL: GpuSet = GpuSet(u64::MAX);

    /// The set that a number has a bit for each GPU of.
    pub const fn from_bits(bits: u64) -> GpuSet {
        GpuSet(bits)
    }

    /// The set as a number with a bit for each GPU.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set of one GPU.
    pub const fn of(gpu: usize) -> GpuSet {
        GpuSet(1 << gpu)
    }

    /// The set of the GPUs with the lowest `count` indices.
    pub fn first_of(count: usize) -> GpuSet {
        (0..count).collect()
    }

    /// Whether the set has the GPU; it has none beyond its 64.
    pub fn contains(self, gpu: impl Borrow<usize>) -> bool {
        let gpu = *gpu.borrow();
        gpu < u64::BITS as usize && self.0 >> gpu & 1 == 1
    }

    /// Whether the set has no GPU.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many GPUs the set has.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Adds a GPU.
    pub fn insert(&mut self, gpu: usize) {
        self.0 |= 1 << gpu;
    }

    /// Takes a GPU out.
    pub fn remove(&mut self, gpu: usize) {
        self.0 &= !(1 << gpu);
    }

    /// The GPU with the lowest index.
    pub fn first(self) -> Option<usize> {
        (!self.is_empty()).then(|| self.0.trailing_zeros() as usize)
    }

    /// The only GPU of the set; `None` if it has none or several.
    pub fn only(self) -> Option<usize> {
        self.first().filter(|_| self.len() == 1)
    }

    /// The GPUs of the set, the lowest index first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let gpu = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            (gpu < u64::BITS).then_some(gpu as usize)
        })
    }
}

impl std::fmt::Debug for GpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == GpuSet::ALL {
            return f.write_str("{all}");
        }
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<usize> for GpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(gpus: I) -> GpuSet {
        gpus.into_iter()
            .fold(GpuSet::EMPTY, |set, gpu| set | GpuSet::of(gpu))
    }
}

impl FromIterator<GpuSet> for GpuSet {
    fn from_iter<I: IntoIterator<Item = GpuSet>>(sets: I) -> GpuSet {
        sets.into_iter().fold(GpuSet::EMPTY, GpuSet::bitor)
    }
}

impl BitOr for GpuSet {
    type Output = GpuSet;

    fn bitor(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 | other.0)
    }
}

impl BitOrAssign for GpuSet {
    fn bitor_assign(&mut self, other: GpuSet) {
        self.0 |= other.0;
    }
}

impl BitAnd for GpuSet {
    type Output = GpuSet;

    fn bitand(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 & other.0)
    }
}

impl BitAndAssign for GpuSet {
    fn bitand_assign(&mut self, other: GpuSet) {
        self.0 &= other.0;
    }
}

impl Not for GpuSet {
    type Output = GpuSet;

    fn not(self) -> GpuSet {
        GpuSet(!self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_inserted_and_not_removed() {
        let mut set = GpuSet::EMPTY;
        assert!(set.is_empty() && set.first().is_none() && set.only().is_none());
        set.insert(3);
        assert_eq!((set, set.only(), set.bits()), (GpuSet::of(3), Some(3), 0b1000));
        set.insert(63);
        assert_eq!(
            (set.len(), set.first(), set.only(), set.contains(63)),
            (2, Some(3), None, true)
        );
        set.remove(3);
        set.remove(4);
        assert_eq!(set.iter().collect::<Vec<_>>(), [63]);
    }

    #[test]
    fn sets_are_joined_cut_and_turned() {
        let (low, odd) = (GpuSet::first_of(3), [1, 3, 5].into_iter().collect::<GpuSet>());
        assert_eq!((low | odd).bits(), 0b10_1111);
        assert_eq!((low & odd).bits(), 0b10);
        assert_eq!((odd & !low).bits(), 0b10_1000);
        assert_eq!(!GpuSet::EMPTY, GpuSet::ALL);
        assert_eq!([low, odd].into_iter().collect::<GpuSet>(), low | odd);
        assert_eq!(GpuSet::from_bits(odd.bits()), odd);
    }

    #[test]
    fn all_indices_are_in_reach() {
        assert_eq!(GpuSet::first_of(64), GpuSet::ALL);
        assert_eq!(GpuSet::ALL.iter().count(), 64);
        assert!(!GpuSet::ALL.contains(64), "there is no such GPU");
    }

    #[test]
    fn it_reads_as_a_set() {
        assert_eq!(
            format!("{:?} {:?}", GpuSet::from_bits(0b101), GpuSet::ALL),
            "{0, 2} {all}"
        );
    }
}
