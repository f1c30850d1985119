//! The default streams of a process whose tasks are on several GPUs. Each GPU has default streams of its own;
//! the program sees one, in which everything is in order, and which waits for its blocking streams and is
//! waited for by them.
//!
//! Tasks share no device memory, so that order between GPUs shows in one way only: in host memory that one of
//! them writes while the program goes on, and that another reads. Only once there may be such memory does
//! work on a GPU wait for what the others were given before; until then tasks on several GPUs run beside each
//! other.

use std::sync::atomic::{AtomicBool, Ordering};

use mgb_abi::stream::{STREAM_LEGACY, STREAM_PER_THREAD};
use mgb_core::work;
use mgb_probe::wire::MAX_GPUS;
use parking_lot::Mutex;

use super::across::{current, follow};
use crate::code::Own;
use crate::native::Stream;
use crate::{contexts, device, state};

/// Streams up to this value are CUDA's default streams, which every GPU has.
pub const LAST_DEFAULT: usize = STREAM_PER_THREAD;

/// Whether GPUs may read or write host memory after the call that asked for it has returned.
static SHARED: AtomicBool = AtomicBool::new(false);
static ORDER: Mutex<Order> = Mutex::new(Order {
    turns: 0,
    at: 0,
    seen: [0; MAX_GPUS],
});

struct Order {
    /// Ops in default streams that had to wait for another GPU, or came first on theirs.
    turns: u64,
    /// Where the last of them was.
    at: u32,
    /// Which of them each GPU's blocking streams come after.
    seen: [u64; MAX_GPUS],
}

/// Notes that there may be host memory that GPUs use by themselves, or functions of the host that they
/// call.
pub fn note_shared() {
    SHARED.store(true, Ordering::Release);
}

#[inline]
fn matters() -> bool {
    contexts::on_several() && SHARED.load(Ordering::Acquire) && !state::may_be_several()
}

/// Called before an operation in a default stream of this thread's GPU: orders it after the work that the
/// other GPUs were given.
#[inline]
pub fn in_order() -> Result<(), Own> {
    if matters() { join_all() } else { Ok(()) }
}

/// Called before an operation in a stream that blocks with the default stream: orders it after the last
/// operation of a default stream.
#[inline]
pub fn blocking_in_order() -> Result<(), Own> {
    if matters() { join_last() } else { Ok(()) }
}

/// Makes the default streams of this thread's GPU wait for what every other GPU was given, whatever it does.
pub fn gather() -> Result<(), Own> {
    if contexts::on_several() && !state::may_be_several() {
        join_all()
    } else {
        Ok(())
    }
}

#[cold]
fn join_all() -> Result<(), Own> {
    let Some(here) = current() else { return Ok(()) };
    let mut order = ORDER.lock();
    for (other, _) in device::with_context().filter(|(gpu, _)| *gpu != here) {
        if work::take_new(other) {
            join(other, here).inspect_err(|_| work::note(other))?;
        }
    }
    order.turns += 1;
    order.at = here;
    order.seen[here as usize] = order.turns;
    Ok(())
}

#[cold]
fn join_last() -> Result<(), Own> {
    let Some(here) = current() else { return Ok(()) };
    let mut order = ORDER.lock();
    if order.seen[here as usize] != order.turns {
        join(order.at, here)?;
        order.seen[here as usize] = order.turns;
    }
    Ok(())
}

/// Makes the default streams, and the blocking ones, of the GPU `here` wait for those of `other`.
fn join(other: u32, here: u32) -> Result<(), Own> {
    let _relaxed = device::RelaxedCapture::begin();
    let legacy = STREAM_LEGACY as Stream;
    let joined = follow(legacy, other, legacy);
    work::note(here);
    joined
}
