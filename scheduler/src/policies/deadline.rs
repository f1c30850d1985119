//! What the orders by deadline have in common: who can still be served in time, and keys that say so first.
//!
//! A task is of one of three classes. What can still end before its deadline goes first, then what has none,
//! then what is *lost*: expected to miss it whatever is done. The class stands in the key before everything
//! else, since a time alone cannot tell a lost task from a feasible one: LAX's published formula compares the
//! expected end of a task that will miss with the laxity of one that will not, and so lets a hopeless short
//! task pass a long one that could still make it.

use std::time::Duration;

use super::Waiter;

/// What a deadline means for who goes first. The order of the variants is theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum DeadlineClass {
    /// It can still end in time.
    Feasible,
    /// It has no deadline.
    Open,
    /// It is expected to miss its deadline.
    Lost,
}

/// Bits of a key below the class: nanoseconds for 146 years.
const TIME_BITS: u32 = 62;

/// How much time a task can lose and still end by its deadline; `None`: not any. A task of which nothing is
/// known is expected to take as long as tasks do on average ([`Waiter::expected`]); where none has ended yet
/// there is no average, and it counts as if it took no time.
pub(crate) fn laxity(deadline: Duration, expected: Duration, now: Duration) -> Option<Duration> {
    let remaining = if expected == Duration::MAX {
        Duration::ZERO
    } else {
        expected
    };
    deadline.checked_sub(now)?.checked_sub(remaining)
}

/// The class of a task, and its laxity where it is feasible.
pub(super) fn classify(waiter: &Waiter, now: Duration) -> (DeadlineClass, Duration) {
    match waiter.deadline {
        None => (DeadlineClass::Open, Duration::ZERO),
        Some(deadline) => match laxity(deadline, waiter.expected, now) {
            Some(laxity) => (DeadlineClass::Feasible, laxity),
            None => (DeadlineClass::Lost, Duration::ZERO),
        },
    }
}

/// A sort key: the class, then the time. What is alike in both is served in the order of arrival.
pub(super) fn key(class: DeadlineClass, time: Duration) -> u64 {
    let most = (1 << TIME_BITS) - 1;
    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(most);
    u64::from(class as u8) << TIME_BITS | time
}
