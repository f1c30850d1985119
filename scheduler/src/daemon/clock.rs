//! Clocks: the boot's, and that of the loop's thread.

use std::time::Duration;

/// How long this thread has computed: what other programs of the machine take of it meanwhile is not in it.
pub(crate) fn computed() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A clock that all processes of this boot share.
pub(crate) fn boot_clock() -> Duration {
    mgb_probe::clock::now()
}
