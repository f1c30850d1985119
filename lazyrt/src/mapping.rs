//! Memory behind a bound task's objects, and what was recorded for them.
//!
//! Mapping takes the driver milliseconds, and the bytes that come back from the host may be many. So none
//! of this happens under the state's lock: the task is marked as moving, and a thread that needs the task
//! or one of its objects waits.

use mgb_abi::copy::HOST_TO_DEVICE;
use mgb_core::memory::{self, Failure, Range, Spare};
use mgb_core::swaps::{Spent, Watch};
use mgb_core::work;
use mgb_probe::trace::SwapKind;
use parking_lot::MutexGuard;

use crate::code::{Code, Own, fail};
use crate::deferred_ops::Record;
use crate::restore::{self, Failed};
use crate::state::{self, Backing, Freed, Key, ProcessState, Returned, TakenExtent};
use crate::{device, driver_start, native, session};

type Locked = MutexGuard<'static, ProcessState>;

/// Puts memory behind every extent of the task that has none, and swapped bytes back into it. The task has
/// room for all of it, and its GPU is current on this thread. The lock is released meanwhile. `asked`: since
/// when the task has waited for room.
pub fn all(
    mut state: Locked,
    key: Key,
    gpu: u32,
    ordinal: i32,
    asked: Option<Watch>,
) -> (Locked, Result<(), Failed>) {
    let mut parts = state.begin_commit(key);
    if parts.is_empty() {
        return (state, Ok(()));
    }
    drop(state);
    let is_swapped = |part: &TakenExtent| matches!(part.backing, Backing::Host(_));
    let mut watch = parts.iter().any(is_swapped).then(|| {
        let mut watch = asked.unwrap_or_else(|| Watch::begin(SwapKind::Restored));
        watch.book(Spent::Room);
        watch
    });
    let (came, done) = restore::put_all(&mut parts, gpu, ordinal, watch.as_mut());
    let mut state = state::lock();
    state.end_commit(key, parts);
    if let (Some(task), Some(watch)) = (state.task(key), watch) {
        task.swaps.extend(watch.end(gpu, came));
    }
    (state, done)
}

/// Lets another GPU use all of the task's memory.
pub fn lend(state: &mut ProcessState, key: Key, gpu: u32, ordinal: i32) -> Result<(), Failure> {
    let Ok(driver) = driver_start::get() else {
        return Ok(());
    };
    let _relaxed = device::RelaxedCapture::begin();
    state.lend(key, gpu, |address, length| {
        memory::lend(driver, Range::new(address, length), ordinal)
    })
}

/// Does what was recorded, in order. The task is bound and backed, its GPU current on this thread. The lock
/// is released meanwhile.
pub fn replay(mut state: Locked, key: Key) -> (Locked, Result<(), Own>) {
    let Some(task) = state.task(key) else {
        return (state, Ok(()));
    };
    if task.records.is_empty() {
        return (state, Ok(()));
    }
    let (gpu, records) = (task.shared.placement().0, task.records.take());
    task.begin_move();
    drop(state);
    let done = play(gpu, &records);
    let mut state = state::lock();
    state.end_move(key);
    (state, done)
}

fn play(gpu: u32, records: &[Record]) -> Result<(), Own> {
    // Where the program has streams, one of them may be capturing: no other than lazyrt's own is touched
    // then.
    let stream = if state::is_anchored() || work::any_stream() {
        device::own_stream(gpu)?
    } else {
        std::ptr::null_mut()
    };
    let mut failed = Code::SUCCESS;
    for record in records {
        // SAFETY: the addresses were checked when the op was recorded, and records of freed objects are
        // forgotten; the host bytes are the record's own, and there until all is done.
        let code = unsafe {
            match record {
                Record::Copy { to, bytes } => native::cudaMemcpyAsync(
                    *to as *mut _,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    HOST_TO_DEVICE,
                    stream,
                ),
                Record::Set { to, value, bytes } => {
                    native::cudaMemsetAsync(*to as *mut _, i32::from(*value), *bytes as usize, stream)
                }
                Record::Symbol {
                    symbol,
                    offset,
                    bytes,
                } => native::cudaMemcpyToSymbolAsync(
                    *symbol as *const _,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    *offset,
                    HOST_TO_DEVICE,
                    stream,
                ),
            }
        };
        if !code.is_success() {
            failed = code;
        }
    }
    // Streams that do not wait for this one must find the bytes there.
    // SAFETY: a stream that is there.
    let code = unsafe { native::cudaStreamSynchronize(stream) };
    match (failed, code) {
        (Code::SUCCESS, Code::SUCCESS) => Ok(()),
        (Code::SUCCESS, code) | (code, _) => fail(code),
    }
}

/// Does what is left to do for a freed object: memory first, then its addresses, then its room. The caller
/// holds no lock.
pub fn finish_free(freed: Freed) {
    if let Some(Spare { range, memory, .. }) = freed.memory {
        if let Ok(driver) = driver_start::get()
            && let Err(failure) = memory::release_extent(driver, range, memory)
            && !failure.is_shut_down()
        {
            mgb_core::notice::once("release", format_args!("failed to free device memory: {failure}"));
        }
        crate::state::lock().recycle(range);
    }
    give_back(freed.returned);
}

/// Frees the memory that freed objects left. The caller holds no lock.
pub fn release_spares() {
    let spares = crate::state::lock().spares.take_all(None);
    for memory in spares {
        finish_free(Freed {
            memory: Some(memory),
            returned: None,
        });
    }
}

/// Gives room back to mgbd. The caller holds no lock.
pub fn give_back(returned: impl IntoIterator<Item = Returned>) {
    for Returned { id, bytes } in returned {
        session::give_back(id, bytes);
    }
}
