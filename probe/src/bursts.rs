//! How long a latency program's bursts take: each from its first launch until its own synchronisation
//! returns.
//!
//! Counted by length, in buckets whose bounds grow with the length: eight between a power of two and the
//! next, so that what is read from them is at most an eighth above the truth.

use serde::{Deserialize, Serialize};

/// Buckets that there are: the last one has all that takes longer than a minute.
pub const BUCKETS: usize = 192;
/// Buckets between a power of two and the next, as a power of two.
const BITS: u32 = 3;

/// How long the bursts of a program took, of all since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bursts {
    /// How many there were.
    pub count: u64,
    /// Microseconds that half of them took at most.
    pub p50_us: u64,
    /// Microseconds that 99 of 100 took at most.
    pub p99_us: u64,
}

impl Bursts {
    /// From how many there were in each bucket; `None`: there were none.
    pub fn of(counts: impl Iterator<Item = u32> + Clone) -> Option<Bursts> {
        let count: u64 = counts.clone().map(u64::from).sum();
        let at_most = |percent: u64| {
            let rank = (count * percent).div_ceil(100);
            let mut seen = 0;
            let bucket = counts.clone().position(|count| {
                seen += u64::from(count);
                seen >= rank
            });
            bucket.map_or(0, longest)
        };
        (count > 0).then(|| Bursts {
            count,
            p50_us: at_most(50),
            p99_us: at_most(99),
        })
    }
}

/// The bucket of a burst that took so many microseconds.
pub fn bucket(us: u64) -> usize {
    let exponent = (us | 1).ilog2();
    if exponent < BITS {
        return us as usize;
    }
    let part = (us >> (exponent - BITS)) & ((1 << BITS) - 1);
    let bucket = u64::from((exponent - BITS + 1) << BITS) + part;
    (bucket as usize).min(BUCKETS - 1)
}

/// The most microseconds that a burst of this bucket took, but for the last bucket.
fn longest(bucket: usize) -> u64 {
    let (octave, part) = ((bucket >> BITS) as u32, bucket as u64 & ((1 << BITS) - 1));
    if octave == 0 {
        return part;
    }
    (((1 << BITS | part) + 1) << (octave - 1)) - 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_in_the_bucket_that_ends_with_it_or_beyond() {
        let mut last = 0;
        for us in (0..5000).chain((13..26).flat_map(|at| [1 << at, (1 << at) + 1, (2 << at) - 1])) {
            let bucket = bucket(us);
            assert!(
                longest(bucket) >= us && longest(bucket) <= us + us / 8,
                "{us} in {bucket}"
            );
            assert!(bucket == 0 || longest(bucket - 1) < us, "{us} in {bucket}");
            last = last.max(bucket);
        }
        assert_eq!(last, BUCKETS - 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_of_all_bursts() {
        let mut counts = [0; BUCKETS];
        assert_eq!(Bursts::of(counts.iter().copied()), None);
        (1..=100).for_each(|us| counts[bucket(us * 10)] += 1);
        let bursts = Bursts::of(counts.iter().copied()).unwrap();
        assert_eq!(bursts.count, 100);
        assert!((500..=562).contains(&bursts.p50_us), "{bursts:?}");
        assert!((990..=1113).contains(&bursts.p99_us), "{bursts:?}");
        // Whatever a client writes.
        let any = Bursts::of([u32::MAX; BUCKETS].into_iter()).unwrap();
        assert!(any.p50_us < any.p99_us, "{any:?}");
    }
}
