//! Where every decision of a source comes from.

/// The SplitMix64 generator of random numbers.
#[derive(Debug)]
pub struct Draw(u64);

impl Draw {
    /// The numbers of a seed. They begin at a place that is itself drawn: seeds that follow one another would
    /// else have the same numbers, one further on.
    pub fn new(seed: u64) -> Draw {
        Draw(Draw(seed.wrapping_add(0x1234_5678)).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Whether something with the chance 1 to `n` happens.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of them.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}
