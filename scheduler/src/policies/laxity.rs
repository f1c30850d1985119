//! Least laxity first: of what can still be met, what has least time to lose. After LAX, with the class of a
//! task before its laxity ([`super::deadline`]).
//!
//! laxity = deadline − now − remaining. A task that waits to begin has done no work, so that all of its
//! expected length remains.

use std::time::Duration;

use super::Waiter;
use super::deadline::{classify, key};

/// The sort key of a request that waits; less goes first.
pub(super) fn turn(waiter: &Waiter, now: Duration) -> u64 {
    let (class, laxity) = classify(waiter, now);
    key(class, laxity)
}
