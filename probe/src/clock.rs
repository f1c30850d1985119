//! The machine's monotonic clock, which all its processes share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What it shows, since the machine was started. May be called in a handler of a signal.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The same in nanoseconds, which last for 584 years.
pub fn nanoseconds() -> u64 {
    now().as_nanos() as u64
}
