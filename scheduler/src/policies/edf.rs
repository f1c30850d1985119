//! Earliest deadline first: of what can still be met, what is wanted soonest. How long a task takes only
//! decides whether it is lost.

use std::time::Duration;

use super::Waiter;
use super::deadline::{DeadlineClass, classify, key};

/// The sort key of a request that waits; less goes first.
pub(super) fn turn(waiter: &Waiter, now: Duration) -> u64 {
    let (class, _) = classify(waiter, now);
    let deadline = waiter.deadline.filter(|_| class == DeadlineClass::Feasible);
    key(class, deadline.unwrap_or_default())
}
