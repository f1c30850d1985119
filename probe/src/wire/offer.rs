//! Leases as words of the channel: a client offers the grant of a task that is over, and takes it up again
//! for the task's next run, unless `mgbd` takes it away because somebody waits.
//!
//! Whoever puts a 0 in place of the task owns its grant. While anybody waits nothing is offered: the client
//! offers first and looks then whether anybody does, `mgbd` says first that somebody waits and takes then.
//! Both swap the lease's word, so one of them comes second: `mgbd`, and takes the offer, or the client, and
//! sees what `mgbd` said before. `tests` plays all orders.

use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// The client offers a task. False: somebody waits, and the offer must be withdrawn.
pub(crate) fn offer(lease: &AtomicU64, wanted: &AtomicU64, task: u64) -> bool {
    // A plain store would not be ordered with the load below.
    let before = lease.swap(task, Ordering::AcqRel);
    debug_assert_eq!(before, 0, "a lease is offered in a free slot");
    wanted.load(Ordering::Relaxed) == 0
}

/// The client takes its offer back. False: `mgbd` has taken it.
pub(crate) fn withdraw(lease: &AtomicU64, task: u64) -> bool {
    lease
        .compare_exchange(task, 0, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

/// `mgbd` says whether anybody waits.
pub fn want(wanted: &AtomicU64, waits: bool) {
    wanted.store(u64::from(waits), Ordering::Relaxed);
}

/// `mgbd` takes what is offered; the client can take it up no more. Call it after [`want`].
pub fn take(lease: &AtomicU64) -> Option<u64> {
    Some(lease.swap(0, Ordering::AcqRel)).filter(|&task| task != 0)
}

#[cfg(all(test, loom))]
#[path = "offer_tests.rs"]
mod tests;
