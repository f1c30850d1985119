//! Booking a device's engines across processes, in the shared state.
//!
//! Copies to a device go one after another, and so do copies from it, of whichever process. When kernels run
//! is found in [`super::schedule`]. An engine is booked when the work is done and its length known, from the
//! moment it could have begun.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering::Relaxed;

use super::host;
use super::model::{self, KernelWork};
use super::mps_client::mps_client;
use super::precedence::{self, Attempt};
use super::schedule::{Booked, KernelBooking, SLICES};
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

/// Books a kernel in a stream of this priority; returns its modelled end. `is_over`: the process ends.
pub fn kernel(
    device: &DeviceConfig,
    work: &KernelWork,
    ready: u64,
    priority: i32,
    is_over: impl Fn() -> bool,
) -> u64 {
    let (profile, client) = (device.profile(), mps_client());
    let multiprocessors = client.multiprocessors(profile);
    let length = real(device, model::kernel(profile, multiprocessors, work), work);
    let request = KernelBooking {
        ready,
        length,
        warps: model::warps(profile, multiprocessors, work),
        process: 0,
        alone: !settings().mps,
        most: profile.warps_of(multiprocessors),
    };
    if !settings().time || !precedence::gives_way(priority) {
        return at_once(device, request);
    }
    let waves = model::waves(multiprocessors, work).clamp(1, SLICES);
    let (mut end, mut left) = (ready, length);
    for wave in (1..=waves).rev() {
        let length = left / wave;
        left -= length;
        let (from, request) = (end, KernelBooking { length, ..request });
        end = precedence::book(device.index, priority, from, &is_over, || {
            when_it_begins(
                device,
                KernelBooking {
                    ready: from,
                    ..request
                },
            )
        });
    }
    end
}

/// Books a kernel for whenever it fits.
fn at_once(device: &DeviceConfig, request: KernelBooking) -> u64 {
    book(request.ready, |clocks, process| {
        let (clock, request) = (&clocks[device.index], KernelBooking { process, ..request });
        let pieces = request.pieces(&booked(clock), device.profile().warps());
        for &(start, end) in &pieces {
            store(clock, start, end, &request);
        }
        pieces.last().map_or(request.ready, |&(_, end)| end)
    })
}

/// Books a kernel if it can begin by now. Without the shared state it is not held up.
fn when_it_begins(device: &DeviceConfig, request: KernelBooking) -> Attempt {
    let attempt = state::shared().and_then(|state| {
        state.with_clocks(|clocks, process| {
            let (clock, request) = (&clocks[device.index], KernelBooking { process, ..request });
            let capacity = device.profile().warps();
            let start = request.earliest(&booked(clock), capacity, request.ready, request.length);
            if start > crate::clock::now() {
                return Attempt::BeginsAt(start);
            }
            store(clock, start, start + request.length, &request);
            Attempt::Booked(start + request.length)
        })
    });
    attempt.unwrap_or(Attempt::Booked(request.ready))
}

fn booked(clock: &Clock) -> Vec<Booked> {
    let spans = clock.kernels.iter().map(load);
    spans.filter(|span| span.end > 0).collect()
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
