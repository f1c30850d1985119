//! Streams: where they are on each GPU, and what order that takes.

use std::sync::atomic::Ordering;

use mgb_abi::stream::STREAM_NON_BLOCKING;
use mgb_core::{captures, work};

use super::across::{check, current, follow, home};
use super::default::{self, LAST_DEFAULT};
use super::early;
use super::slot::{Handle, HandleKind, Slot, find, make};
use crate::code::{Answer, Code, Own, fail};
use crate::native::{self, Stream};
use crate::task_binding::{self, Asked};
use crate::{device, state, thread};

/// A new stream; on no GPU.
pub fn create(flags: u32, priority: Option<i32>) -> Result<Handle, Own> {
    if flags & !STREAM_NON_BLOCKING != 0 {
        return fail(Code::INVALID_VALUE);
    }
    Ok(make(HandleKind::Stream, flags, priority)?.handle())
}

/// The runtime's own stream on this thread's GPU. A stream that was used on another GPU continues here
/// after the work that it has there.
#[inline]
pub fn real(stream: Stream) -> Result<Stream, Own> {
    let Some(slot) = find(stream, HandleKind::Stream)? else {
        if stream as usize <= LAST_DEFAULT {
            default::in_order()?;
        }
        return Ok(stream);
    };
    if slot.flags() & STREAM_NON_BLOCKING == 0 {
        default::blocking_in_order()?;
    }
    if let Some(gpu) = slot.at()
        && current() == Some(gpu)
    {
        return Ok(slot.real(gpu).load(Ordering::Acquire));
    }
    bring(slot)
}

/// Runs a call with the runtime's own stream on this thread's GPU, which is current. For calls inside the
/// gate.
#[inline]
pub fn on(stream: Stream, call: impl FnOnce(Stream) -> Code) -> Code {
    match real(stream) {
        Ok(real) => call(real),
        Err(Own(code)) => code,
    }
}

/// The runtime's own stream on the GPU where it was used last; `None` if it was used on no GPU.
pub fn real_where_it_is(stream: Stream) -> Result<Option<Stream>, Own> {
    let Some(slot) = find(stream, HandleKind::Stream)? else {
        return Ok(Some(stream));
    };
    let there = slot.at().map(|gpu| slot.real(gpu).load(Ordering::Acquire));
    Ok(there)
}

#[cold]
fn bring(slot: &'static Slot) -> Result<Stream, Own> {
    let Some(gpu) = current() else {
        return fail(Code::INVALID_HANDLE);
    };
    let _moving = slot.moving.lock();
    let _relaxed = device::RelaxedCapture::begin();
    let here = slot.real(gpu);
    if here.load(Ordering::Acquire).is_null() {
        here.store(make_real(slot)?, Ordering::Release);
        work::note_stream();
    }
    let real = here.load(Ordering::Acquire);
    match slot.at() {
        Some(before) if before != gpu => {
            follow(real, before, slot.real(before).load(Ordering::Acquire))?;
        }
        _ => {}
    }
    slot.last.store(gpu + 1, Ordering::Release);
    early::record_early_on(slot, gpu, real);
    Ok(real)
}

fn make_real(slot: &Slot) -> Result<Stream, Own> {
    let mut real = std::ptr::null_mut();
    // SAFETY: writes one handle.
    check(unsafe {
        match slot.priority() {
            Some(priority) => native::cudaStreamCreateWithPriority(&mut real, slot.flags(), priority),
            None => native::cudaStreamCreateWithFlags(&mut real, slot.flags()),
        }
    })?;
    Ok(real)
}

/// The GPU that the stream is on; for a stream of the runtime's own, or a default one: the GPU of this
/// thread.
pub fn gpu_of(stream: Stream) -> Result<Option<u32>, Own> {
    Ok(match find(stream, HandleKind::Stream)? {
        Some(slot) => slot.at(),
        None => home(),
    })
}

/// In a program of several devices: the GPU of the stream's device, where its work is ordered with that of
/// the device's default stream. `None`: it is on none yet, or no stream of lazyrt's.
pub fn home_of(stream: Stream) -> Result<Option<(u32, i32)>, Own> {
    let Some(slot) = find(stream, HandleKind::Stream)? else {
        return Ok(None);
    };
    let lazy = state::lazy_shared_of(slot.device()).filter(|lazy| lazy.is_bound());
    let gpu = lazy.map(|lazy| lazy.placement().0).or(slot.at());
    gpu.map(|gpu| Ok((gpu, device::ordinal(gpu)?))).transpose()
}

/// Runs `call` with the runtime's own stream, on its GPU; if it is on no GPU yet, on any GPU that the
/// process may use.
pub fn on_its_gpu(stream: Stream, call: impl FnOnce(Stream) -> Code) -> Answer {
    go_to(stream)?;
    Ok(call(real(stream)?))
}

/// Makes the stream's GPU current; a device that is on none gets one.
pub(super) fn go_to(stream: Stream) -> Result<(), Own> {
    let several = state::may_be_several();
    let home = if several { home_of(stream)? } else { None };
    let (gpu, ordinal) = match (home, gpu_of(stream)?) {
        (Some(home), _) => home,
        (None, Some(gpu)) => (gpu, device::ordinal(gpu)?),
        // Its device's default stream will be where the device's memory is.
        (None, None) if several => {
            let device = facts(stream)?.map_or_else(state::current, |(_, device)| device);
            let key = state::lock().lazy_task_of(device);
            task_binding::prepare(key, Asked::default())?.placement()
        }
        (None, None) => return crate::task_binding::be_somewhere(),
    };
    device::select(gpu, ordinal)
}

/// Whether lazyrt made the stream, and it is alive.
pub fn is_own(stream: Stream) -> Result<bool, Own> {
    Ok(find(stream, HandleKind::Stream)?.is_some())
}

/// Flags and device of the program.
pub fn facts(stream: Stream) -> Result<Option<(u32, usize)>, Own> {
    Ok(find(stream, HandleKind::Stream)?.map(|slot| (slot.flags(), slot.device())))
}

/// Waits for the stream, or asks whether it is done, by `call`.
pub fn done(stream: Stream, call: impl FnOnce(Stream) -> Code) -> Answer {
    let Some(slot) = find(stream, HandleKind::Stream)? else {
        return Ok(call(stream));
    };
    match slot.at() {
        Some(gpu) => Ok(call(slot.real(gpu).load(Ordering::Acquire))),
        None => Ok(crate::fault::sticky().unwrap_or(Code::SUCCESS)),
    }
}

/// Ends the stream; its submitted work continues.
pub fn destroy(stream: Stream) -> Answer {
    let Some(slot) = find(stream, HandleKind::Stream)? else {
        return fail(Code::INVALID_HANDLE);
    };
    let mut answer = Code::SUCCESS;
    if slot.retire() {
        slot.early.lock().clear();
        for real in slot.take_real() {
            // SAFETY: made by `make_real`, and destroyed once.
            let code = unsafe { native::cudaStreamDestroy(real) };
            answer = if code.is_success() { answer } else { code };
            captures::forget(real as usize);
        }
    }
    thread::with(|thread| thread.take_hint());
    Ok(answer)
}
