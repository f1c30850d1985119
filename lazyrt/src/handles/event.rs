//! Events: recorded on the GPU where their stream is, waited for from any.

use std::sync::atomic::Ordering;

use mgb_abi::stream::{EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING, EVENT_INTERPROCESS};
use mgb_core::work;
use mgb_probe::clock;

use super::across::{check, current, elsewhere};
use super::default::{self, LAST_DEFAULT};
use super::early::{early, forget_early, here};
use super::slot::{Handle, HandleKind, NOWHERE, Slot, find, make};
use super::stream;
use crate::code::{Answer, Code, Own, fail};
use crate::native::{self, Stream};
use crate::{device, state};

/// All flags of an event.
const FLAGS: u32 = EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING | EVENT_INTERPROCESS;

/// A new event; on no GPU.
pub fn create(flags: u32) -> Result<Handle, Own> {
    if flags & !FLAGS != 0 || flags & (EVENT_DISABLE_TIMING | EVENT_INTERPROCESS) == EVENT_INTERPROCESS {
        return fail(Code::INVALID_VALUE);
    }
    Ok(make(HandleKind::Event, flags, None)?.handle())
}

/// The runtime's own event: on the GPU where it was recorded, else on this thread's GPU.
pub fn real(event: Handle) -> Result<Handle, Own> {
    let Some(slot) = find(event, HandleKind::Event)? else {
        return Ok(event);
    };
    match slot.at().or_else(current) {
        Some(gpu) if current() == Some(gpu) => here(slot, gpu),
        Some(gpu) => Ok(slot.real(gpu).load(Ordering::Acquire)),
        None => fail(Code::INVALID_HANDLE),
    }
}

/// Records the event. `call` is the runtime's function.
pub fn record(event: Handle, on: Stream, call: impl FnOnce(Handle, Stream) -> Code) -> Answer {
    let slot = find(event, HandleKind::Event)?;
    let gpu = match stream::gpu_of(on)? {
        Some(gpu) => gpu,
        None => match device::with_context().next() {
            Some((gpu, _)) => gpu,
            None => {
                let Some(slot) = slot else {
                    return fail(Code::INVALID_HANDLE);
                };
                early(slot, on)?;
                return Ok(Code::SUCCESS);
            }
        },
    };
    device::select(gpu, device::ordinal(gpu)?)?;
    let real_stream = stream::real(on)?;
    if on as usize <= LAST_DEFAULT {
        // It stands for what the program's default stream was given, wherever that is.
        default::gather()?;
    }
    let Some(slot) = slot else {
        return Ok(call(event, real_stream));
    };
    let code = call(here(slot, gpu)?, real_stream);
    if code.is_success() {
        forget_early(slot);
        slot.last.store(gpu + 1, Ordering::Release);
    }
    Ok(code)
}

/// Makes a stream wait for an event. `call` is the runtime's function.
pub fn wait(on: Stream, event: Handle, call: impl FnOnce(Stream, Handle) -> Code) -> Answer {
    let slot = find(event, HandleKind::Event)?;
    let there = match slot {
        Some(slot) => match slot.at() {
            Some(gpu) => Some(gpu),
            // Never recorded, or before there was work: nothing to wait for.
            None => {
                stream::is_own(on)?;
                return Ok(Code::SUCCESS);
            }
        },
        None => None,
    };
    let event = match (slot, there) {
        (Some(slot), Some(gpu)) => slot.real(gpu).load(Ordering::Acquire),
        _ => event,
    };
    let found = stream::gpu_of(on)?;
    if found.is_none() && on as usize <= LAST_DEFAULT && state::may_be_several() {
        // The default stream of a device that is on no GPU yet. The host must not wait in its stead: what the
        // event waits for may take this thread. So the device gets its GPU now.
        stream::go_to(on)?;
    }
    let Some(gpu) = found
        .or_else(|| stream::gpu_of(on).ok()?)
        .or(there)
        .or_else(current)
    else {
        return fail(Code::INVALID_HANDLE);
    };
    device::select(gpu, device::ordinal(gpu)?)?;
    let code = call(stream::real(on)?, event);
    work::note(gpu);
    Ok(code)
}

/// Waits for the event, or asks whether it is done, by `call`.
pub fn done(event: Handle, call: impl FnOnce(Handle) -> Code) -> Answer {
    let Some(slot) = find(event, HandleKind::Event)? else {
        return Ok(call(event));
    };
    match slot.at() {
        Some(gpu) => Ok(call(slot.real(gpu).load(Ordering::Acquire))),
        None => Ok(crate::fault::sticky().unwrap_or(Code::SUCCESS)),
    }
}

/// Milliseconds from one event to another. `call` is the runtime's function.
pub fn elapsed(
    start: Handle,
    end: Handle,
    call: impl Fn(&mut f32, Handle, Handle) -> Code,
) -> Result<(Code, f32), Own> {
    let slots = (find(start, HandleKind::Event)?, find(end, HandleKind::Event)?);
    let (Some(first), Some(second)) = slots else {
        let real = |slot: Option<&'static Slot>, handle| match slot.and_then(|slot| Some((slot, slot.at()?)))
        {
            Some((slot, gpu)) => slot.real(gpu).load(Ordering::Acquire),
            None => handle,
        };
        let mut between = 0.0;
        let code = call(&mut between, real(slots.0, start), real(slots.1, end));
        return Ok((code, between));
    };
    let never = |slot: &Slot| slot.last.load(Ordering::Acquire) == NOWHERE;
    if never(first) || never(second) || (first.flags() | second.flags()) & EVENT_DISABLE_TIMING != 0 {
        return fail(Code::INVALID_HANDLE);
    }
    let of = |slot: &Slot, gpu| slot.real(gpu).load(Ordering::Acquire);
    let mut between = 0.0;
    let code = match (first.at(), second.at()) {
        (Some(one), Some(two)) if one == two => call(&mut between, of(first, one), of(second, two)),
        (one, two) => {
            // On two GPUs, or one of them before there was any: by the host's clock.
            let moment = |slot: &Slot, gpu: Option<u32>| match gpu {
                Some(gpu) => moment(gpu, of(slot, gpu), &call),
                None => Ok(Ok(slot.when.load(Ordering::Relaxed) as f64 / 1e6)),
            };
            let (one, two) = (moment(first, one)?, moment(second, two)?);
            match (one, two) {
                (Ok(one), Ok(two)) => {
                    between = (two - one) as f32;
                    Code::SUCCESS
                }
                (Err(code), _) | (_, Err(code)) => code,
            }
        }
    };
    Ok((code, between))
}

/// Nanoseconds of the machine's monotonic clock.
fn now() -> u64 {
    clock::now().as_nanos() as u64
}

/// How often to read both clocks.
const CLOCK_READS: usize = 4;

/// When the event was, in milliseconds of the host's clock.
fn moment(
    gpu: u32,
    event: Handle,
    call: &impl Fn(&mut f32, Handle, Handle) -> Code,
) -> Result<Result<f64, Code>, Own> {
    let _relaxed = device::RelaxedCapture::begin();
    elsewhere(gpu, || {
        let mut mark = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check(unsafe { native::cudaEventCreateWithFlags(&mut mark, 0) })?;
        let mut best: Option<(u64, f64)> = None;
        let mut code = Code::SUCCESS;
        for _ in 0..CLOCK_READS {
            let before = now();
            // SAFETY: made above; a stream of its own would start no later.
            code = unsafe { native::cudaEventRecord(mark, std::ptr::null_mut()) };
            if code.is_success() {
                // SAFETY: recorded above.
                code = unsafe { native::cudaEventSynchronize(mark) };
            }
            // The mark was somewhere between: the shortest time is the best.
            let took = now() - before;
            let mut between = 0.0;
            if code.is_success() {
                code = call(&mut between, event, mark);
            }
            if !code.is_success() {
                break;
            }
            let middle = (before + took / 2) as f64 / 1e6;
            if best.is_none_or(|(least, _)| took < least) {
                best = Some((took, middle - f64::from(between)));
            }
        }
        // SAFETY: made above.
        unsafe { native::cudaEventDestroy(mark) };
        Ok(best.map_or(Err(code), |(_, moment)| Ok(moment)))
    })
}

/// Ends the event.
pub fn destroy(event: Handle) -> Answer {
    let Some(slot) = find(event, HandleKind::Event)? else {
        return fail(Code::INVALID_HANDLE);
    };
    forget_early(slot);
    let mut answer = Code::SUCCESS;
    if slot.retire() {
        for real in slot.take_real() {
            // SAFETY: made by lazyrt, and destroyed once.
            let code = unsafe { native::cudaEventDestroy(real) };
            answer = if code.is_success() { answer } else { code };
        }
    }
    Ok(answer)
}
