//! On which GPUs batch programs are held, so that a program that others wait for has them: a pure function of
//! what those programs say, and of how much of a GPU's time their users may take.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often what is held is said anew. A client that hears nothing goes on after `core::pace::HOLD_TIMEOUT`.
pub const RENEWAL_INTERVAL: Duration = Duration::from_millis(5);
/// What may be taken at a time, after a pause.
const MOST_AT_ONCE: Duration = Duration::from_millis(100);
/// Less than that is not begun with: holds that end at once help nobody.
const LEAST_AT_ONCE: Duration = Duration::from_millis(5);

/// A program that others wait for.
#[derive(Clone, Copy, Debug)]
pub struct LatencyProgram {
    /// The user whose program it is.
    pub uid: u32,
    /// How many percent of a GPU's time the user's programs may take from batch programs.
    pub percent: u32,
    /// The GPUs where it has work, one bit each.
    pub urgent: u64,
    /// The GPUs where it has a context.
    pub contexts: u64,
}

/// What batch programs are told, one bit a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paced {
    /// GPUs on which launches are held.
    pub holds: u64,
    /// GPUs on which what is in flight is bounded.
    pub bounds: u64,
}

/// The time that a user's programs may still take on a GPU.
#[derive(Clone, Copy, Debug)]
struct TimeBudget {
    /// So much of the time comes back, in percent.
    percent: u32,
    left: Duration,
    at: Duration,
    /// It is taken from now.
    holds: bool,
}

impl TimeBudget {
    fn new(now: Duration) -> TimeBudget {
        TimeBudget {
            percent: 0,
            left: MOST_AT_ONCE,
            at: now,
            holds: false,
        }
    }

    /// Time goes by, and the user's programs want the GPU from now on or not.
    fn step(&mut self, wanted: bool, now: Duration) {
        let since = now.saturating_sub(self.at);
        let taken = if self.holds { since } else { Duration::ZERO };
        let grown = self.left + since * self.percent / 100;
        self.left = grown.saturating_sub(taken).min(MOST_AT_ONCE);
        self.at = now;
        let least = if self.holds { Duration::ZERO } else { LEAST_AT_ONCE };
        self.holds = wanted && self.percent > 0 && self.left > least;
    }

    /// When to look again at one that is wanted, if nothing happens before.
    fn next(&self) -> Duration {
        /// So that it is enough then.
        const MORE: Duration = Duration::from_micros(100);
        if self.holds {
            return RENEWAL_INTERVAL.min(self.left + MORE);
        }
        (LEAST_AT_ONCE.saturating_sub(self.left) + MORE) * 100 / self.percent.max(1)
    }
}

/// Who takes time where.
#[derive(Debug, Default)]
pub struct Pacing {
    budgets: BTreeMap<(u32, u32), TimeBudget>,
}

impl Pacing {
    /// What batch programs are told from now on, and in how long to look again.
    pub fn step(&mut self, programs: &[LatencyProgram], now: Duration) -> (Paced, Option<Duration>) {
        let mut wanted = BTreeSet::new();
        let mut paced = Paced::default();
        for program in programs.iter().filter(|program| program.percent > 0) {
            paced.bounds |= program.contexts;
            for gpu in bits(program.urgent & program.contexts) {
                wanted.insert((program.uid, gpu));
                let budget = self.budgets.entry((program.uid, gpu));
                budget.or_insert_with(|| TimeBudget::new(now)).percent = program.percent;
            }
        }
        let mut next = None;
        for (key, budget) in &mut self.budgets {
            let is_wanted = wanted.contains(key);
            budget.step(is_wanted, now);
            if budget.holds {
                paced.holds |= 1 << key.1;
            }
            let due = is_wanted.then(|| budget.next());
            next = [next, due].into_iter().flatten().min();
        }
        self.budgets
            .retain(|_, budget| budget.holds || budget.left < MOST_AT_ONCE);
        (paced, next)
    }
}

fn bits(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let first = (set != 0).then(|| set.trailing_zeros())?;
        set &= set - 1;
        Some(first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn program(uid: u32, percent: u32, urgent: u64) -> LatencyProgram {
        LatencyProgram {
            uid,
            percent,
            urgent,
            contexts: 0b11,
        }
    }

    #[test]
    fn batch_is_held_where_a_program_that_others_wait_for_has_work() {
        let mut pacing = Pacing::default();
        assert_eq!(pacing.step(&[], Duration::ZERO), (Paced::default(), None));
        let idle = Paced {
            holds: 0,
            bounds: 0b11,
        };
        assert_eq!(pacing.step(&[program(1, 50, 0)], MS), (idle, None));
        // It has no context on the third GPU, whatever it says.
        let (paced, next) = pacing.step(&[program(1, 50, 0b110)], 2 * MS);
        assert_eq!((paced.holds, next), (0b10, Some(RENEWAL_INTERVAL)));
        let (paced, next) = pacing.step(&[program(1, 50, 0)], 3 * MS);
        assert_eq!((paced, next), (idle, None));
        // Without the right it changes nothing.
        let (paced, next) = pacing.step(&[program(1, 0, 0b11)], 4 * MS);
        assert_eq!((paced, next), (Paced::default(), None));
    }

    #[test]
    fn a_program_that_is_never_idle_takes_its_percentage() {
        for percent in [1, 10, 30, 50] {
            let mut pacing = Pacing::default();
            let (mut now, mut held) = (Duration::ZERO, Duration::ZERO);
            let end = 20_000 * MS;
            while now < end {
                let (paced, next) = pacing.step(&[program(7, percent, 1)], now);
                let next = next.expect("it is wanted all the time");
                assert!(!next.is_zero());
                held += if paced.holds != 0 { next } else { Duration::ZERO };
                now += next;
            }
            let part = held.as_secs_f64() / end.as_secs_f64() * 100.0;
            let most = f64::from(percent) + 100.0 * MOST_AT_ONCE.as_secs_f64() / end.as_secs_f64();
            assert!(
                part <= most + 1.0,
                "{part} % of the time, and {percent} % are allowed"
            );
            assert!(part >= f64::from(percent) * 0.8, "{part} % of {percent} %");
        }
    }

    #[test]
    fn users_have_budgets_of_their_own_and_what_they_used_up_comes_back() {
        let mut pacing = Pacing::default();
        let mut now = Duration::ZERO;
        while pacing.step(&[program(1, 10, 1)], now).0.holds != 0 {
            now += RENEWAL_INTERVAL;
        }
        assert!(now < 150 * MS);
        let both = [program(1, 10, 1), program(2, 10, 1)];
        assert_eq!(pacing.step(&both, now).0.holds, 1);
        // The one is taken from until now, the other all the time.
        for _ in 0..2 {
            pacing.step(&[], now);
            now += 2000 * MS;
        }
        pacing.step(&[], now);
        assert!(pacing.budgets.is_empty());
    }
}
