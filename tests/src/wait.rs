//! Waiting on conditions with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything in a test may take before it counts as hung. Generous, since two cores may run eight
/// programs.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until `condition` gives a value.
///
/// # Panics
///
/// When [`TEST_TIMEOUT`] is over first; the message names `what`.
#[track_caller]
pub fn until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    match try_until(condition) {
        Some(value) => value,
        None => panic!("waited {TEST_TIMEOUT:?} in vain until {what}"),
    }
}

/// Waits until `condition` gives a value, or [`TEST_TIMEOUT`] is over.
pub fn try_until<T>(condition: impl FnMut() -> Option<T>) -> Option<T> {
    try_within(TEST_TIMEOUT, condition)
}

/// Waits until `condition` gives a value, or `patience` is over.
pub fn try_within<T>(patience: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if start.elapsed() > patience {
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
