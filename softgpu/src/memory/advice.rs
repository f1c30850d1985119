//! What a program advised about managed memory, and where it prefetched it last. Nothing moves here: the
//! advice is kept so that the program can read it.

use std::collections::BTreeMap;

use mgb_abi::location::MemLocation;
use parking_lot::Mutex;

/// What is known of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// It is mostly read.
    pub read_mostly: bool,
    /// Where it should lie.
    pub preferred: MemLocation,
    /// Its users: a bit for each device, and for the host.
    pub users: u64,
    /// Where it was asked for last.
    pub prefetched: MemLocation,
}

/// The bit of the host among the users.
pub const HOST_USER: u32 = 63;

impl Default for Advice {
    fn default() -> Advice {
        Advice {
            read_mostly: false,
            preferred: MemLocation::INVALID,
            users: 0,
            prefetched: MemLocation::INVALID,
        }
    }
}

/// Ranges by their start, with their end.
static RANGES: Mutex<Ranges> = Mutex::new(Ranges(BTreeMap::new()));

struct Ranges(BTreeMap<usize, (usize, Advice)>);

impl Ranges {
    /// Lets no range reach over `at`.
    fn cut(&mut self, at: usize) {
        if let Some((_, range)) = self.0.range_mut(..at).next_back()
            && range.0 > at
        {
            let (end, advice) = *range;
            range.0 = at;
            self.0.insert(at, (end, advice));
        }
    }

    fn change(&mut self, start: usize, end: usize, change: impl Fn(&mut Advice)) {
        self.cut(start);
        self.cut(end);
        let mut at = start;
        let known: Vec<(usize, usize)> = self
            .0
            .range(start..end)
            .map(|(&from, &(to, _))| (from, to))
            .collect();
        for (from, to) in known.into_iter().chain([(end, end)]) {
            if at < from {
                self.0.insert(at, (from, Advice::default()));
            }
            at = to;
        }
        for (_, (_, advice)) in self.0.range_mut(start..end) {
            change(advice);
        }
    }

    /// What is known of each part of a range.
    fn parts(&self, start: usize, end: usize) -> Vec<Advice> {
        let first = self
            .0
            .range(..=start)
            .next_back()
            .map_or(start, |(&from, _)| from);
        let mut at = start;
        let mut found = Vec::new();
        for (&from, &(to, advice)) in self.0.range(first..end) {
            if to <= at {
                continue;
            }
            if at < from {
                found.push(Advice::default());
            }
            found.push(advice);
            at = to;
        }
        if at < end {
            found.push(Advice::default());
        }
        found
    }
}

/// Changes what is known of a range.
pub fn change(start: usize, length: usize, change: impl Fn(&mut Advice)) {
    RANGES.lock().change(start, start + length, change);
}

/// Forgets a range, which is freed.
pub fn forget(start: usize, length: usize) {
    let mut ranges = RANGES.lock();
    ranges.cut(start);
    ranges.cut(start + length);
    ranges.0.retain(|&from, _| from < start || from >= start + length);
}

/// What is known of each part of a range.
pub fn parts(start: usize, length: usize) -> Vec<Advice> {
    RANGES.lock().parts(start, start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_where_advice_ends() {
        let mut ranges = Ranges(BTreeMap::new());
        ranges.change(10, 20, |advice| advice.read_mostly = true);
        ranges.change(15, 30, |advice| advice.users = 1);
        let known = |start, end| -> Vec<(bool, u64)> {
            let parts = ranges.parts(start, end);
            parts.iter().map(|part| (part.read_mostly, part.users)).collect()
        };
        assert_eq!(
            known(0, 40),
            [(false, 0), (true, 0), (true, 1), (false, 1), (false, 0)]
        );
        assert_eq!(known(16, 19), [(true, 1)]);
        assert_eq!(known(30, 31), [(false, 0)]);
    }
}
