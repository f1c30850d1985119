//! Free ranges of some space: of addresses, or of offsets in a file. Neighbours are joined; the
//! smallest range that is large enough is taken first.

use std::collections::{BTreeMap, BTreeSet};

/// A set of free ranges.
#[derive(Debug, Default)]
pub struct FreeExtents {
    by_start: BTreeMap<usize, usize>,
    by_length: BTreeSet<(usize, usize)>,
}

impl FreeExtents {
    /// Adds a range that is not in the set, and returns the range it is part of now.
    pub fn give(&mut self, start: usize, length: usize) -> (usize, usize) {
        let (mut start, mut length) = (start, length);
        if let Some((&before, &size)) = self.by_start.range(..start).next_back()
            && before + size == start
        {
            self.forget(before, size);
            (start, length) = (before, size + length);
        }
        if let Some(&after) = self.by_start.get(&(start + length)) {
            self.forget(start + length, after);
            length += after;
        }
        self.note(start, length);
        (start, length)
    }

    /// Takes `length` out of the smallest range that has so much.
    pub fn take(&mut self, length: usize) -> Option<usize> {
        let &(size, start) = self.by_length.range((length, 0)..).next()?;
        self.forget(start, size);
        if size > length {
            self.note(start + length, size - length);
        }
        Some(start)
    }

    /// Takes `length`, which does not cross a multiple of `unit`, out of the smallest range that has so much.
    pub fn take_within(&mut self, length: usize, unit: usize) -> Option<usize> {
        let place = |&(size, start): &(usize, usize)| {
            let crosses = start / unit != (start + length - 1) / unit;
            let at = if crosses {
                start.next_multiple_of(unit)
            } else {
                start
            };
            (at + length <= start + size).then_some(at)
        };
        let at = self.by_length.range((length, 0)..).find_map(place)?;
        self.take_at(at, length).then_some(at)
    }

    /// Takes exactly this range, which must be free.
    pub fn take_at(&mut self, start: usize, length: usize) -> bool {
        let Some((&from, &size)) = self.by_start.range(..=start).next_back() else {
            return false;
        };
        if from + size < start + length {
            return false;
        }
        self.forget(from, size);
        if from < start {
            self.note(from, start - from);
        }
        if start + length < from + size {
            self.note(start + length, from + size - start - length);
        }
        true
    }

    fn note(&mut self, start: usize, length: usize) {
        self.by_start.insert(start, length);
        self.by_length.insert((length, start));
    }

    fn forget(&mut self, start: usize, length: usize) {
        self.by_start.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_must_not_cross_a_boundary_does_not() {
        let mut free = FreeExtents::default();
        free.give(0, 20);
        assert_eq!(
            [free.take_within(7, 10), free.take_within(7, 10)],
            [Some(0), Some(10)]
        );
        assert_eq!(free.take_within(7, 10), None, "there are 3 on either side");
        assert_eq!(
            [free.take_within(3, 10), free.take_within(3, 10)],
            [Some(7), Some(17)]
        );
    }

    #[test]
    fn the_smallest_fit_is_taken_and_neighbours_join() {
        let mut free = FreeExtents::default();
        free.give(0, 100);
        free.give(200, 10);
        assert_eq!(free.take(10), Some(200));
        assert_eq!(free.take(60), Some(0));
        assert_eq!(free.take(60), None);
        assert_eq!(free.give(0, 60), (0, 100));
        assert!(free.take_at(50, 10));
        assert!(!free.take_at(55, 10));
        assert_eq!(free.give(50, 10), (0, 100));
    }

    proptest! {
        #[test]
        fn nothing_is_handed_out_twice(steps in prop::collection::vec((any::<bool>(), 1usize..40), 1..200)) {
            let mut free = FreeExtents::default();
            free.give(0, 1000);
            let mut held: Vec<(usize, usize)> = Vec::new();
            for (give, amount) in steps {
                if give && !held.is_empty() {
                    let (start, length) = held.swap_remove(amount % held.len());
                    free.give(start, length);
                } else if let Some(start) = free.take(amount) {
                    prop_assert!(held.iter().all(|&(s, l)| start + amount <= s || s + l <= start));
                    held.push((start, amount));
                }
            }
            for (start, length) in held {
                free.give(start, length);
            }
            prop_assert_eq!(free.take(1000), Some(0));
        }
    }
}
