//! Which kernels go before which: those of normal clients of MPS before those of clients below normal, and
//! within a process those in streams of greater priority.
//!
//! What goes first is booked ahead, as soon as the work is done. What gives way is booked when it could begin
//! by the wall clock, wave after wave of its blocks, so that whatever was asked for until then is before it,
//! and a kernel that runs is never interrupted: the blocks that are there end first. Of those of one process
//! that wait, the one of the greatest priority is booked first. Where the host's time is modelled nothing
//! gives way, since the wall clock says nothing there.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::host;
use super::mps_client::mps_client;
use crate::clock;

/// Nanoseconds until a start is found out anew: what others have booked may have gone with them.
const RETRY_INTERVAL: u64 = 2_000_000;

/// The greatest priority, which is the least number, of a stream that the process has made.
static GREATEST: AtomicI32 = AtomicI32::new(0);

static WAITING: Mutex<Vec<WaitingKernel>> = Mutex::new(Vec::new());
static CHANGED: Condvar = Condvar::new();

/// A kernel of this process that gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WaitingKernel {
    device: usize,
    priority: i32,
    ready: u64,
}

/// A stream of this priority is there from now on.
pub fn note_stream(priority: i32) {
    GREATEST.fetch_min(priority, Relaxed);
}

/// Whether there may be others that go before a kernel in a stream of this priority.
pub fn gives_way(priority: i32) -> bool {
    !host::modelled() && (mps_client().is_below_normal || GREATEST.load(Relaxed) < priority)
}

/// What came of an attempt to book.
pub enum Attempt {
    /// It is booked, until then.
    Booked(u64),
    /// It could begin then.
    BeginsAt(u64),
}

/// Books what gives way: tries until it has begun, or it is over with the process. Returns the modelled end.
pub fn book(
    device: usize,
    priority: i32,
    ready: u64,
    is_over: impl Fn() -> bool,
    mut attempt: impl FnMut() -> Attempt,
) -> u64 {
    let own = WaitingKernel {
        device,
        priority,
        ready,
    };
    WAITING.lock().push(own);
    let mut end = ready;
    while !is_over() {
        wait_for_greater(&own);
        match attempt() {
            Attempt::Booked(then) => {
                end = then;
                break;
            }
            Attempt::BeginsAt(then) => clock::sleep_until(then.min(clock::now() + RETRY_INTERVAL)),
        }
    }
    let mut waiting = WAITING.lock();
    if let Some(at) = waiting.iter().position(|other| *other == own) {
        waiting.swap_remove(at);
    }
    drop(waiting);
    CHANGED.notify_all();
    end
}

/// Waits while a kernel of greater priority could be booked, for a while at most.
fn wait_for_greater(own: &WaitingKernel) {
    let mut waiting = WAITING.lock();
    let now = clock::now();
    let is_before = |other: &WaitingKernel| {
        other.device == own.device && other.priority < own.priority && other.ready <= now
    };
    if waiting.iter().any(is_before) {
        CHANGED.wait_for(&mut waiting, Duration::from_nanos(RETRY_INTERVAL));
    }
}
