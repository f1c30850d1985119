//! Booking a device's engines across processes, in the shared state.
//!
//! Copies to a device go one after another, and so do copies from it, whoever asks. Kernels overlap
//! while the warps they occupy fit into the device together, as they do under MPS; one that does
//! not fit starts when enough others have ended. An engine is booked when the work is done and its
//! length known, from the moment it could have begun.

use std::sync::atomic::Ordering::Relaxed;

use super::model::{self, Work};
use crate::device::Gpu;
use crate::state;
use crate::state::layout::{Clock, Span};

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host to a device.
    ToDevice,
    /// From a device to the host.
    FromDevice,
}

/// Whether device time is kept: not with `SOFTGPU_TIME=off`.
pub fn enabled() -> bool {
    static ENABLED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ENABLED.get_or_init(|| std::env::var("SOFTGPU_TIME").as_deref() != Ok("off"))
}

/// Books a copy over the link; returns its modelled end.
pub fn copy(gpu: &Gpu, direction: Direction, bytes: u64, pinned: bool, ready: u64) -> u64 {
    let length = scaled(gpu, model::copy(&gpu.profile().rates, bytes, pinned));
    book(gpu, ready, |clock, _| {
        let engine = &clock.copies[direction as usize];
        let end = ready.max(engine.load(Relaxed)) + length;
        engine.store(end, Relaxed);
        end
    })
}

/// The modelled end of a copy or set within the device; these overlap with everything.
pub fn within(gpu: &Gpu, touched: u64, ready: u64) -> u64 {
    if enabled() {
        ready + scaled(gpu, model::within(&gpu.profile().rates, touched))
    } else {
        ready
    }
}

/// Books a kernel; returns its modelled end.
pub fn kernel(gpu: &Gpu, work: &Work, ready: u64) -> u64 {
    let length = scaled(gpu, model::kernel(gpu.profile(), work));
    let warps = model::warps(gpu.profile(), work);
    book(gpu, ready, |clock, slot| {
        let booked: Vec<Booked> = clock
            .kernels
            .iter()
            .map(Booked::load)
            .filter(|span| span.end > ready)
            .collect();
        let start = place(&booked, warps, gpu.profile().warps(), ready, length);
        let span = Booked {
            start,
            end: start + length,
            warps,
        };
        span.store(clock, slot);
        span.end
    })
}

fn scaled(gpu: &Gpu, length: u64) -> u64 {
    length.saturating_mul(u64::from(gpu.spec.slow.max(1)))
}

/// Without the shared state work is not held up.
fn book(gpu: &Gpu, ready: u64, book: impl FnOnce(&Clock, u64) -> u64) -> u64 {
    if !enabled() {
        return ready;
    }
    let booked = state::shared().and_then(|state| state.with_clock(gpu.index, book));
    booked.unwrap_or(ready)
}

/// A kernel's place in device time.
#[derive(Clone, Copy, Debug)]
struct Booked {
    start: u64,
    end: u64,
    warps: u64,
}

impl Booked {
    fn load(span: &Span) -> Booked {
        Booked {
            start: span.start.load(Relaxed),
            end: span.end.load(Relaxed),
            warps: span.warps.load(Relaxed),
        }
    }

    /// Takes the place of the kernel that ended first.
    fn store(self, clock: &Clock, slot: u64) {
        let oldest = clock.kernels.iter().min_by_key(|span| span.end.load(Relaxed));
        let Some(span) = oldest else { return };
        span.end.store(0, Relaxed);
        span.start.store(self.start, Relaxed);
        span.warps.store(self.warps, Relaxed);
        span.slot.store(slot, Relaxed);
        span.end.store(self.end, Relaxed);
    }
}

/// The earliest start, not before `ready`, at which `warps` more fit under `capacity` for `length`.
fn place(booked: &[Booked], warps: u64, capacity: u64, ready: u64, length: u64) -> u64 {
    let mut starts: Vec<u64> = booked
        .iter()
        .map(|span| span.end)
        .filter(|&end| end > ready)
        .collect();
    starts.push(ready);
    starts.sort_unstable();
    let fits = |from: u64| {
        let until = from + length;
        let over = |span: &&Booked| span.start < until && span.end > from;
        // Use only grows where a kernel starts, so those moments are enough to look at.
        let moments = booked
            .iter()
            .filter(over)
            .map(|span| span.start.max(from))
            .chain([from]);
        moments.into_iter().all(|moment| {
            let used: u64 = booked
                .iter()
                .filter(|s| s.start <= moment && s.end > moment)
                .map(|s| s.warps)
                .sum();
            used + warps <= capacity
        })
    };
    starts.iter().copied().find(|&start| fits(start)).unwrap_or(ready)
}

/// Per cent of the last `window` nanoseconds in which a kernel ran, for NVML.
pub fn utilization(clock: &Clock, now: u64, window: u64) -> u32 {
    let from = now.saturating_sub(window);
    let mut spans: Vec<(u64, u64)> = clock
        .kernels
        .iter()
        .map(Booked::load)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, end: u64, warps: u64) -> Booked {
        Booked { start, end, warps }
    }

    #[test]
    fn kernels_overlap_while_they_fit() {
        let booked = [span(0, 100, 60)];
        assert_eq!(place(&booked, 40, 100, 10, 50), 10);
        assert_eq!(place(&booked, 41, 100, 10, 50), 100);
    }

    #[test]
    fn a_kernel_does_not_push_into_one_booked_for_later() {
        let booked = [span(0, 100, 60), span(100, 200, 100)];
        assert_eq!(place(&booked, 40, 100, 10, 50), 10);
        assert_eq!(place(&booked, 40, 100, 60, 50), 200);
    }

    #[test]
    fn three_of_half_a_device_take_two_rounds() {
        let mut booked = Vec::new();
        for expected in [0, 0, 10] {
            let start = place(&booked, 50, 100, 0, 10);
            assert_eq!(start, expected);
            booked.push(span(start, start + 10, 50));
        }
    }
}
