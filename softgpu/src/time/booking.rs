//! Booking a device's engines across processes, in the shared state.
//!
//! Copies to a device go one after another, and so do copies from it, of whichever process. When kernels run
//! is found in [`super::schedule`]. An engine is booked when the work is done and its length known, from the
//! moment it could have begun.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering::Relaxed;

use super::host;
use super::model::{self, KernelWork};
use super::schedule::{Booked, KernelBooking};
use super::settings::settings;
use crate::config::device::DeviceConfig;
use crate::state;
use crate::state::layout::{Clock, KernelSpan};

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the host to a device.
    ToDevice,
    /// From a device to the host.
    FromDevice,
}

/// Books a copy over the link; returns its modelled end.
pub fn copy(device: &DeviceConfig, direction: Direction, bytes: u64, pinned: bool, ready: u64) -> u64 {
    let length = model::copy(&device.profile().rates, bytes, pinned);
    let length = real(device, length, ("copy", direction, bytes, pinned));
    book(ready, |clocks, _| {
        let engine = &clocks[device.index].copies[direction as usize];
        let end = ready.max(engine.load(Relaxed)) + length;
        engine.store(end, Relaxed);
        end
    })
}

/// Books a copy from one device to another, on an engine of each; returns its modelled end.
pub fn between(from: &DeviceConfig, to: &DeviceConfig, bytes: u64, ready: u64) -> u64 {
    let rate = from.profile().rates.peer.min(to.profile().rates.peer);
    let length = model::between(rate, bytes);
    let work = ("between", to.index, bytes);
    let length = real(from, length, work).max(real(to, length, work));
    book(ready, |clocks, _| {
        let out = &clocks[from.index].copies[Direction::FromDevice as usize];
        let into = &clocks[to.index].copies[Direction::ToDevice as usize];
        let end = ready.max(out.load(Relaxed)).max(into.load(Relaxed)) + length;
        out.store(end, Relaxed);
        into.store(end, Relaxed);
        end
    })
}

/// The modelled end of a copy or set within the device; these overlap with everything.
pub fn within(device: &DeviceConfig, touched: u64, ready: u64) -> u64 {
    if settings().time {
        ready
            + real(
                device,
                model::within(&device.profile().rates, touched),
                ("within", touched),
            )
    } else {
        ready
    }
}

/// Books a kernel; returns its modelled end.
pub fn kernel(device: &DeviceConfig, work: &KernelWork, ready: u64) -> u64 {
    let length = real(device, model::kernel(device.profile(), work), work);
    let warps = model::warps(device.profile(), work);
    book(ready, |clocks, process| {
        let clock = &clocks[device.index];
        let request = KernelBooking {
            ready,
            length,
            warps,
            process,
            alone: !settings().mps,
        };
        let booked: Vec<Booked> = clock
            .kernels
            .iter()
            .map(load)
            .filter(|span| span.end > 0)
            .collect();
        let pieces = request.pieces(&booked, device.profile().warps());
        for &(start, end) in &pieces {
            store(clock, start, end, &request);
        }
        pieces.last().map_or(ready, |&(_, end)| end)
    })
}

/// A modelled length as this device has it: slowed down, and varied by the seed.
fn real(device: &DeviceConfig, length: u64, work: impl Hash) -> u64 {
    let slow = u64::from(device.spec.slow.max(1)).saturating_mul(crate::fail::slowness(device.index));
    let mut hasher = DefaultHasher::new();
    work.hash(&mut hasher);
    host::varied(length.saturating_mul(slow), device.index, hasher.finish())
}

/// Without the shared state work is not held up.
fn book(ready: u64, book: impl FnOnce(&[Clock], u64) -> u64) -> u64 {
    if !settings().time {
        return ready;
    }
    let booked = state::shared().and_then(|state| state.with_clocks(book));
    booked.unwrap_or(ready)
}

fn load(span: &KernelSpan) -> Booked {
    Booked {
        start: span.start.load(Relaxed),
        end: span.end.load(Relaxed),
        warps: span.warps.load(Relaxed),
        process: span.slot.load(Relaxed),
        alone: span.alone.load(Relaxed) != 0,
    }
}

/// Overwrites the booking of the kernel that ended first.
fn store(clock: &Clock, start: u64, end: u64, request: &KernelBooking) {
    let oldest = clock.kernels.iter().min_by_key(|span| span.end.load(Relaxed));
    let Some(span) = oldest else { return };
    span.end.store(0, Relaxed);
    span.start.store(start, Relaxed);
    span.warps.store(request.warps, Relaxed);
    span.slot.store(request.process, Relaxed);
    span.alone.store(request.alone.into(), Relaxed);
    span.end.store(end, Relaxed);
}

/// Per cent of the last `window` nanoseconds in which a kernel ran, for NVML.
pub fn utilization(clock: &Clock, now: u64, window: u64) -> u32 {
    let from = now.saturating_sub(window);
    let mut spans: Vec<(u64, u64)> = clock
        .kernels
        .iter()
        .map(load)
        .map(|span| (span.start.max(from), span.end.min(now)))
        .filter(|(start, end)| start < end)
        .collect();
    spans.sort_unstable();
    let (mut busy, mut reached) = (0, from);
    for (start, end) in spans {
        busy += end.saturating_sub(start.max(reached));
        reached = reached.max(end);
    }
    (busy * 100 / window.max(1)).min(100) as u32
}
