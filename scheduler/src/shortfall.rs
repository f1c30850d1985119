//! Whose part of a GPU's time is too small: a pure function of what was measured, beside [`crate::balance`].
//!
//! While several processes have work on a GPU, each is due an even part of its time, and so is who would have
//! work but waits for its memory there. Who has got less than half of what was due to it in the last seconds,
//! and for seconds, is short; those who have got more than was due to them are why. It is a matter of who has
//! work, not of how a GPU divides itself among those who have.

use std::time::Duration;

use crate::client::ClientId;

/// For how long a process has got too little before it is short.
pub const SHORT_TIMEOUT: Duration = Duration::from_secs(2);
/// What is due to a process at least, in thousandths of the GPU's time: less is too little to judge by.
const LEAST_DUE: u32 = 50;

/// The parts of a GPU's time in the last seconds, in thousandths of that in which anybody had work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The client whose part of the time it is.
    pub client: ClientId,
    /// The GPU, by index.
    pub gpu: usize,
    /// What the process has got.
    pub share: u32,
    /// What was due to it.
    pub due: u32,
    /// For how long it has got too little by [`is_too_little`]; `None`: it has not.
    pub short_for: Option<Duration>,
}

/// A process that is short of a GPU's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The process that is short.
    pub client: ClientId,
    /// The GPU, by index.
    pub gpu: usize,
    /// What was due to it.
    pub due: u32,
    /// Those who have got more than was due to them there, the most beyond it first.
    pub by: Vec<ClientId>,
}

/// Whether a share is less than half of what was due.
pub fn is_too_little(share: u32, due: u32) -> bool {
    due >= LEAST_DUE && share.saturating_mul(2) < due
}

/// The processes that are short, in the order of `parts`.
pub fn shortfalls(parts: &[Part]) -> Vec<Shortfall> {
    let short = parts
        .iter()
        .filter(|part| part.short_for.is_some_and(|length| length >= SHORT_TIMEOUT));
    let shortfall = |part: &Part| {
        let others = parts
            .iter()
            .filter(|other| other.gpu == part.gpu && other.share > other.due);
        let mut by: Vec<&Part> = others.collect();
        by.sort_by_key(|other| (std::cmp::Reverse(other.share - other.due), other.client));
        Shortfall {
            client: part.client,
            gpu: part.gpu,
            due: part.due,
            by: by.into_iter().map(|other| other.client).collect(),
        }
    };
    short.map(shortfall).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(client: ClientId, gpu: usize, share: u32, due: u32, short_for: u64) -> Part {
        Part {
            client,
            gpu,
            share,
            due,
            short_for: (short_for > 0).then(|| Duration::from_millis(short_for)),
        }
    }

    #[test]
    fn who_waits_while_another_works_is_short_by_it() {
        let parts = [part(1, 0, 950, 500, 0), part(2, 0, 50, 500, 2500)];
        let expected = Shortfall {
            client: 2,
            gpu: 0,
            due: 500,
            by: vec![1],
        };
        assert_eq!(shortfalls(&parts), [expected]);
        let soon = [parts[0], part(2, 0, 50, 500, 1500)];
        assert_eq!(shortfalls(&soon), []);
    }

    #[test]
    fn the_greatest_excess_is_named_first_and_other_gpus_never() {
        let parts = [
            part(1, 0, 400, 300, 0),
            part(2, 0, 10, 400, 3000),
            part(3, 0, 590, 300, 0),
            part(4, 1, 1000, 500, 0),
        ];
        assert_eq!(shortfalls(&parts)[0].by, [3, 1]);
    }

    #[test]
    fn half_is_enough_and_little_is_not_judged() {
        assert!(is_too_little(249, 500) && !is_too_little(250, 500));
        assert!(!is_too_little(0, 0) && !is_too_little(0, 49) && is_too_little(0, 50));
        assert!(!is_too_little(u32::MAX, u32::MAX));
    }

    proptest! {
        #[test]
        fn nobody_is_short_by_itself(
            numbers in prop::collection::vec((0..4usize, 0..=1000u32, 0..=1000u32, 0..4000u64), 0..12),
        ) {
            let parts: Vec<Part> = numbers
                .iter()
                .enumerate()
                .map(|(at, &(gpu, share, due, ms))| {
                    part(at as ClientId, gpu, share, due, if is_too_little(share, due) { ms } else { 0 })
                })
                .collect();
            for short in shortfalls(&parts) {
                prop_assert!(!short.by.contains(&short.client));
            }
        }
    }
}
