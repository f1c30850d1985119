//! Which GPU each number stands for in a job. `CUDA_VISIBLE_DEVICES` numbers the node's GPUs, and the processes of
//! a job share memory by those numbers: all of them have the same GPUs under the same numbers, the best ones under
//! those that programs use first.

/// Most GPUs of a node.
pub const MAX_GPUS: usize = 64;

/// The GPU that each number stands for, both as positions in [`crate::Hello::gpus`]: a permutation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Numbering([u8; MAX_GPUS]);

impl Default for Numbering {
    /// Each number stands for itself.
    fn default() -> Numbering {
        Numbering(std::array::from_fn(|at| at as u8))
    }
}

impl std::fmt::Debug for Numbering {
    /// Up to the last number that stands for another GPU.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let last = self.moved().last().map_or(0, |number| number as usize + 1);
        f.debug_list().entries(&self.0[..last]).finish()
    }
}

impl Numbering {
    /// Two GPUs have changed places. One that cannot be leaves all as they are.
    pub fn exchanging(from: u32, to: u32) -> Numbering {
        let mut numbering = Numbering::default();
        let (from, to) = (from as usize, to as usize);
        if from < MAX_GPUS && to < MAX_GPUS {
            numbering.0.swap(from, to);
        }
        numbering
    }

    /// What the first numbers stand for; the others stand for themselves. `None`: it is no permutation.
    pub fn of(first: &[u32]) -> Option<Numbering> {
        let mut numbering = Numbering::default();
        for (at, &gpu) in first.iter().enumerate() {
            *numbering.0.get_mut(at)? = u8::try_from(gpu).ok()?;
        }
        numbering.is_permutation().then_some(numbering)
    }

    fn is_permutation(&self) -> bool {
        let seen = self.0.iter().fold(0u64, |seen, &gpu| {
            seen | 1u64.checked_shl(gpu.into()).unwrap_or(0)
        });
        seen == u64::MAX
    }

    /// The numbers `from` stand for the GPUs `to`, in this order. `None`: they are not the same GPUs.
    pub fn mapping(from: &[u32], to: &[u32]) -> Option<Numbering> {
        let mut numbering = Numbering::default();
        for (&number, &gpu) in from.iter().zip(to) {
            *numbering.0.get_mut(number as usize)? = u8::try_from(gpu).ok()?;
        }
        (from.len() == to.len() && numbering.is_permutation()).then_some(numbering)
    }

    /// The GPU that a number stands for.
    pub fn gpu(&self, number: u32) -> u32 {
        self.0.get(number as usize).map_or(number, |gpu| (*gpu).into())
    }

    /// The numbers that stand for another GPU than usual.
    pub fn moved(&self) -> impl Iterator<Item = u32> + '_ {
        (0..MAX_GPUS as u32).filter(|number| self.gpu(*number) != *number)
    }

    /// What the first `count` numbers stand for.
    pub fn first(&self, count: usize) -> Vec<u32> {
        self.0[..count.min(MAX_GPUS)]
            .iter()
            .map(|gpu| (*gpu).into())
            .collect()
    }

    /// As words of eight numbers each.
    pub(crate) fn words(&self) -> [u64; MAX_GPUS / 8] {
        std::array::from_fn(|word| {
            let bytes = &self.0[word * 8..][..8];
            bytes
                .iter()
                .rev()
                .fold(0, |word, gpu| word << 8 | u64::from(*gpu))
        })
    }

    /// The same read again; `None`: it is no permutation.
    pub(crate) fn from_words(words: &[u64; MAX_GPUS / 8]) -> Option<Numbering> {
        let numbering = Numbering(std::array::from_fn(|at| words[at / 8].to_le_bytes()[at % 8]));
        numbering.is_permutation().then_some(numbering)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_gpus() {
        let numbering = Numbering::mapping(&[2, 0, 5], &[5, 2, 0]).unwrap();
        assert_eq!(numbering.first(6), [2, 1, 5, 3, 4, 0]);
        assert_eq!(numbering.moved().collect::<Vec<_>>(), [0, 2, 5]);
        assert_eq!(Numbering::of(&[2, 1, 5, 3, 4, 0]), Some(numbering));
        assert_eq!(Numbering::from_words(&numbering.words()), Some(numbering));
        assert_eq!(
            (numbering.gpu(2), numbering.gpu(63), numbering.gpu(64)),
            (5, 63, 64)
        );
        assert_eq!(Numbering::exchanging(1, 3).first(4), [0, 3, 2, 1]);
        assert_eq!(Numbering::exchanging(1, 64), Numbering::default());
    }

    #[test]
    fn what_is_no_permutation_is_none() {
        for strange in [
            vec![1],
            vec![0, 0],
            vec![64],
            vec![256],
            vec![0; 65],
            vec![u32::MAX],
        ] {
            assert_eq!(Numbering::of(&strange), None, "{strange:?}");
        }
        assert_eq!(Numbering::mapping(&[0, 1], &[0]), None);
        assert_eq!(Numbering::mapping(&[0, 1], &[0, 2]), None);
        assert_eq!(Numbering::mapping(&[64], &[0]), None);
        assert_eq!(Numbering::from_words(&[0; 8]), None);
    }
}
