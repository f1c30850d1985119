//! The machine's monotonic clock, which all processes share.

use std::time::Duration;

/// The machine's monotonic clock.
pub fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
