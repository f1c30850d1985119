//! Which of the programs that share a GPU is to go faster to meet its deadline: a pure function of the time
//! that each has left, and of how much longer each is expected to take.
//!
//! Where one would be late beside the others, and could still end in time if others were held for a part of
//! the time ([`crate::help`]), they are held for the one whose deadline is first among all that can be in
//! time: not for the one at risk. To help the earliest is what meets most deadlines where there is enough
//! time for all (it is optimal then), and who is at risk is so because all go side by side. One that would
//! be late all the same is lost, and nobody is held for it.

use std::time::Duration;

use crate::client::ClientId;
use crate::help::MAX_PART;

/// The time that a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLeft {
    /// Until its result is wanted.
    pub until_deadline: Duration,
    /// How much longer it is expected to take beside others.
    pub remaining: Duration,
}

/// Who has less than this part of what remains to spare may be late: what is known of its length is a mean.
const MARGIN: f64 = 0.25;

impl TimeLeft {
    /// Whether a program may be late beside the others.
    fn is_at_risk(&self) -> bool {
        self.until_deadline < self.remaining.mul_f64(1.0 + MARGIN)
    }

    /// Whether it can be in time, as one of so many that have work on the GPU, if the others are held.
    fn is_feasible(&self, programs: usize) -> bool {
        // It has its even part of the time, and all of that in which the others are held.
        let speed = 1.0 - MAX_PART + MAX_PART * programs as f64;
        self.until_deadline >= self.remaining.div_f64(speed)
    }
}

/// Whom the others are to make way for, among all programs that have work on a GPU.
pub fn whom(programs: &[(ClientId, Option<TimeLeft>)]) -> Option<ClientId> {
    let feasible = || {
        let timed = programs
            .iter()
            .filter_map(|(client, left)| Some((left.as_ref()?, *client)));
        timed.filter(|(left, _)| left.is_feasible(programs.len()))
    };
    if !feasible().any(|(left, _)| left.is_at_risk()) {
        return None;
    }
    let first = feasible().min_by_key(|(left, client)| (left.until_deadline, *client));
    first.map(|(_, client)| client)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(until_deadline: u64, remaining: u64) -> Option<TimeLeft> {
        Some(TimeLeft {
            until_deadline: Duration::from_secs(until_deadline),
            remaining: Duration::from_secs(remaining),
        })
    }

    #[test]
    fn who_would_be_late_and_need_not_be_is_helped() {
        // The first has time, the second is late beside one other, the third is lost, the last has no
        // deadline.
        let (early, late, lost) = (left(60, 10), left(8, 10), left(2, 10));
        assert_eq!(whom(&[(1, early), (2, late)]), Some(2));
        assert_eq!(whom(&[(1, early), (4, None)]), None);
        assert_eq!(whom(&[(3, lost), (4, None)]), None);
        assert_eq!(whom(&[(1, early), (2, late), (3, lost), (4, None)]), Some(2));
        // With more beside it there is more to gain.
        let four = [(3, left(5, 10)), (4, None), (5, None), (6, None)];
        assert_eq!((whom(&four), whom(&four[..2])), (Some(3), None));
    }

    /// Also where another one is at risk.
    #[test]
    fn the_earliest_deadline_goes_first() {
        assert_eq!(whom(&[(1, left(9, 10)), (2, left(8, 10))]), Some(2));
        assert_eq!(whom(&[(1, left(90, 100)), (2, left(8, 5))]), Some(2));
    }
}
