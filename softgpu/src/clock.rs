//! The wall clock that device time is kept on: `CLOCK_MONOTONIC` in nanoseconds, which all
//! processes share.

use rustix::thread::{ClockId, Timespec};

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until `then`; at once if it has passed.
pub fn sleep_until(then: u64) {
    if then <= now() {
        return;
    }
    let until = Timespec {
        tv_sec: (then / 1_000_000_000) as i64,
        tv_nsec: (then % 1_000_000_000) as _,
    };
    while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until).is_err() {}
}
