//! How long kernels take, by the kernel and its grid: learned from groups of launches that were measured
//! together.

use std::time::Duration;

/// Kernels that are remembered. One that finds its place taken takes it.
const PLACES: usize = 1024;

#[derive(Clone, Copy)]
struct KernelTime {
    key: u64,
    time: Duration,
}

/// What was measured of a group of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    /// They took so long.
    Time(Duration),
    /// So long at most: the GPU waited for them for a part of it.
    AtMost(Duration),
}

/// The times of kernels.
pub(super) struct KernelTimes(Box<[Option<KernelTime>; PLACES]>);

impl KernelTimes {
    pub(super) fn new() -> KernelTimes {
        KernelTimes(Box::new([None; PLACES]))
    }

    fn place(key: u64) -> usize {
        // Fibonacci hashing: the upper bits depend on all of the key's.
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % PLACES
    }

    /// How long a launch is expected to take; `None`: it was not seen yet.
    pub(super) fn expected(&self, key: u64) -> Option<Duration> {
        let known = self.0[KernelTimes::place(key)]?;
        (known.key == key).then_some(known.time)
    }

    /// A group of launches took so long together. Each of them is taken to have had its expected part of
    /// that. What was measured may have pauses in it: so less counts at once, and more little by little, if
    /// that was not known to have a pause in it.
    pub(super) fn learn(&mut self, keys: &[u64], expected: Duration, measured: Measured) {
        let (took, counts_if_more) = match measured {
            Measured::Time(took) => (took, 0.25),
            Measured::AtMost(took) => (took, 0.0),
        };
        let part = if expected.is_zero() {
            1.0
        } else {
            took.as_secs_f64() / expected.as_secs_f64()
        };
        let mut distinct = keys.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        for key in distinct {
            let place = &mut self.0[KernelTimes::place(key)];
            match place {
                Some(known) if known.key == key => {
                    let seen = known.time.mul_f64(part.min(1000.0));
                    known.time = if seen < known.time {
                        seen
                    } else {
                        known.time + (seen - known.time).mul_f64(counts_if_more)
                    };
                }
                _ => {
                    let time = took / u32::try_from(keys.len().max(1)).unwrap_or(u32::MAX);
                    *place = Some(KernelTime { key, time });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn times_are_learned_from_groups() {
        let mut times = KernelTimes::new();
        assert_eq!(times.expected(7), None);
        times.learn(&[7], Duration::ZERO, Measured::Time(400 * US));
        assert_eq!(times.expected(7), Some(400 * US));
        // Less counts at once, and more a quarter at a time.
        times.learn(&[7, 7], 800 * US, Measured::Time(400 * US));
        assert_eq!(times.expected(7), Some(200 * US));
        times.learn(&[7], 200 * US, Measured::Time(1000 * US));
        assert_eq!(times.expected(7), Some(400 * US));
        // A new one in a group has an even part.
        times.learn(&[7, 8], 400 * US, Measured::Time(300 * US));
        assert_eq!(
            (times.expected(7), times.expected(8)),
            (Some(300 * US), Some(150 * US))
        );
    }

    #[test]
    fn a_time_with_a_pause_in_it_is_a_bound() {
        let mut times = KernelTimes::new();
        times.learn(&[7], Duration::ZERO, Measured::AtMost(5000 * US));
        assert_eq!(times.expected(7), Some(5000 * US));
        times.learn(&[7], 5000 * US, Measured::AtMost(50 * US));
        times.learn(&[7], 50 * US, Measured::AtMost(9000 * US));
        assert_eq!(times.expected(7), Some(50 * US));
    }

    #[test]
    fn a_program_of_many_kernels_takes_no_more_room() {
        let mut times = KernelTimes::new();
        (1..100_000u64).for_each(|key| times.learn(&[key], Duration::ZERO, Measured::Time(US)));
        let known = (1..100_000u64)
            .filter(|&key| times.expected(key).is_some())
            .count();
        assert!(known > PLACES / 2 && known <= PLACES);
    }
}
