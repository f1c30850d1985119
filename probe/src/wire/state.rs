//! The state of a cell: the word through which one call goes, and the futex on which its caller sleeps.
//!
//! | from | to | by |
//! |---|---|---|
//! | [`IDLE`] | [`POSTED`] | the client: the request is written |
//! | [`POSTED`] | [`ASLEEP`] | the client, before it sleeps: whoever answers has to wake it |
//! | [`POSTED`], [`ASLEEP`] | [`ANSWERED`] | `mgbd`: the reply is written |
//! | [`ANSWERED`] | [`IDLE`] | the client: the reply is read |
//!
//! The kernel compares the word before the client sleeps, so no wake is lost, and none is made in vain.
//! `tests` plays all orders of both sides' steps.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sync::{self, AtomicU32};

/// The cell has no call.
pub const IDLE: u32 = 0;
/// The request is complete.
pub const POSTED: u32 = 1;
/// The reply is complete.
pub const ANSWERED: u32 = 2;
/// As [`POSTED`], and the caller sleeps.
pub const ASLEEP: u32 = 3;

/// The client: what it wrote of the request is `mgbd`'s to read.
pub(crate) fn post(state: &AtomicU32) {
    state.store(POSTED, Ordering::Release);
}

/// The client: whether the reply can be read.
pub(crate) fn is_answered(state: &AtomicU32) -> bool {
    state.load(Ordering::Acquire) == ANSWERED
}

/// The client: sleeps until the call is answered, `patience` at most. False: it was not in that time. Where
/// it returns true it may have been woken for nothing.
pub(crate) fn sleep(state: &AtomicU32, patience: Duration) -> bool {
    // Fails where the answer has come, and where it slept already.
    let _ = state.compare_exchange(POSTED, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
    is_answered(state) || sync::wait(state, ASLEEP, patience)
}

/// The client: it has read the reply, and whoever takes the cell next may write.
pub(crate) fn clear(state: &AtomicU32) {
    state.store(IDLE, Ordering::Relaxed);
}

/// `mgbd`: whether there is a request to be read.
pub fn is_posted(state: &AtomicU32) -> bool {
    matches!(state.load(Ordering::Acquire), POSTED | ASLEEP)
}

/// `mgbd`: the reply is written. Wakes the caller if it sleeps.
pub fn answer(state: &AtomicU32) {
    if state.swap(ANSWERED, Ordering::AcqRel) == ASLEEP {
        sync::wake(state);
    }
}

#[cfg(all(test, loom))]
#[path = "state_tests.rs"]
mod tests;
