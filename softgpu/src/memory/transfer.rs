//! Copies and sets: checked when called, done in their turn in a stream.
//!
//! Host bytes are consumed when CUDA says so: a copy from pageable memory has read them when the call
//! returns (small ones are put aside, large ones waited for); one from pinned memory reads them
//! in its turn.

use std::sync::Arc;

use super::{Place, check_device, locate};
use crate::device::Gpu;
use crate::error::{Error, Result, say};
use crate::exec::fault;
use crate::stream::{Stream, Turn};
use crate::time::booking::{self, Direction};

/// Copies from pageable memory up to this size are put aside, as the driver does.
const ASIDE: usize = 64 << 10;

/// Rows of bytes to copy; a plain copy is one row.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Where to.
    pub to: usize,
    /// Bytes from row to row there.
    pub to_pitch: usize,
    /// Where from.
    pub from: usize,
    /// Bytes from row to row there.
    pub from_pitch: usize,
    /// Bytes of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Host,
    ToDevice,
    FromDevice,
    Within,
}

impl Copy {
    /// A plain copy.
    pub fn bytes(to: usize, from: usize, count: usize) -> Copy {
        Copy {
            to,
            to_pitch: count,
            from,
            from_pitch: count,
            width: count,
            height: 1,
        }
    }

    fn span(&self, pitch: usize) -> usize {
        if self.width == 0 || self.height == 0 {
            0
        } else {
            pitch * (self.height - 1) + self.width
        }
    }

    fn total(&self) -> u64 {
        self.width as u64 * self.height as u64
    }

    /// Decides which way the bytes go, as `cudaMemcpyKind` says and the pointers allow.
    fn way(&self, kind: i32) -> Result<Way> {
        let (to, from) = (locate(self.to), locate(self.from));
        let fits = |place: Place, device: bool| {
            if device {
                place.is_device()
            } else {
                place.is_host()
            }
        };
        let way = match kind {
            0 => Way::Host,
            1 => Way::ToDevice,
            2 => Way::FromDevice,
            3 => Way::Within,
            4 => match (to.is_device(), from.is_device()) {
                (false, false) => Way::Host,
                (true, false) => Way::ToDevice,
                (false, true) => Way::FromDevice,
                (true, true) => Way::Within,
            },
            _ => return Err(Error::INVALID_COPY_DIRECTION),
        };
        let (to_device, from_device) = match way {
            Way::Host => (false, false),
            Way::ToDevice => (true, false),
            Way::FromDevice => (false, true),
            Way::Within => (true, true),
        };
        if !fits(to, to_device) || !fits(from, from_device) {
            return Err(Error::INVALID_VALUE);
        }
        if to_device {
            check_device(self.to, self.span(self.to_pitch), true)?;
        }
        if from_device {
            check_device(self.from, self.span(self.from_pitch), false)?;
        }
        Ok(way)
    }

    /// Moves the bytes.
    fn perform(&self) -> Result {
        let Copy {
            to,
            to_pitch,
            from,
            from_pitch,
            width,
            height,
        } = *self;
        let moved = fault::guarded(|| {
            for row in 0..height {
                // SAFETY: device ranges were checked; host ranges are the caller's, whose faults
                // are caught.
                unsafe {
                    let (from, to) = (from + row * from_pitch, to + row * to_pitch);
                    std::ptr::copy(from as *const u8, to as *mut u8, width);
                }
            }
        });
        moved?.map_err(faulted)
    }
}

/// What a copy or set that faulted returns.
fn faulted(address: usize) -> Error {
    say(&format!(
        "a copy or set touched {address:#x}, where there is no memory"
    ));
    if locate(address).is_device() {
        Error::ILLEGAL_ADDRESS
    } else {
        Error::INVALID_VALUE
    }
}

/// When the device would be done with a copy.
fn book(gpu: &Gpu, way: Way, bytes: u64, pinned: bool, ready: u64) -> u64 {
    match way {
        Way::Host => ready,
        Way::ToDevice => booking::copy(gpu, Direction::ToDevice, bytes, pinned, ready),
        Way::FromDevice => booking::copy(gpu, Direction::FromDevice, bytes, pinned, ready),
        Way::Within => booking::within(gpu, 2 * bytes, ready),
    }
}

/// Copies in a stream, and waits until it is done.
///
/// # Errors
/// What is wrong with the copy, or with the device by the time the copy's turn came.
pub fn copy(gpu: &Gpu, stream: &Arc<Stream>, copy: Copy, kind: i32) -> Result {
    if copy.total() == 0 {
        return Ok(());
    }
    let way = copy.way(kind)?;
    wait_for(gpu, stream, way, copy)
}

fn wait_for(gpu: &Gpu, stream: &Arc<Stream>, way: Way, copy: Copy) -> Result {
    let pinned = pinned(way, &copy);
    gpu.streams.run(stream, |turn| {
        gpu.check()?;
        copy.perform()?;
        turn.end = book(gpu, way, copy.total(), pinned, turn.ready);
        Ok(())
    })
}

/// Whether the host's side of a copy is pinned.
fn pinned(way: Way, copy: &Copy) -> bool {
    let host = if way == Way::ToDevice { copy.from } else { copy.to };
    way == Way::Within || !matches!(locate(host), Place::Host)
}

/// Copies in a stream; the caller goes on where CUDA lets it.
///
/// # Errors
/// What is wrong with the copy; what goes wrong later sticks to the device.
pub fn copy_async(gpu: &'static Gpu, stream: &Arc<Stream>, copy: Copy, kind: i32) -> Result {
    if copy.total() == 0 {
        return Ok(());
    }
    let way = copy.way(kind)?;
    let pinned = pinned(way, &copy);
    let aside = way == Way::ToDevice && !pinned && copy.height == 1 && copy.width <= ASIDE;
    if !pinned && !aside {
        return wait_for(gpu, stream, way, copy);
    }
    let kept = aside.then(|| {
        // SAFETY: the caller's buffer of this size, as CUDA's contract has it.
        unsafe { std::slice::from_raw_parts(copy.from as *const u8, copy.width) }.to_vec()
    });
    gpu.streams.submit(stream, move |turn| {
        let from = kept.as_ref().map_or(copy.from, |bytes| bytes.as_ptr() as usize);
        later(gpu, turn, |ready| {
            Copy { from, ..copy }.perform()?;
            Ok(book(gpu, way, copy.total(), pinned, ready))
        });
    });
    Ok(())
}

/// Work whose caller has gone on: what goes wrong sticks to the device.
fn later(gpu: &Gpu, turn: &mut Turn, work: impl FnOnce(u64) -> Result<u64>) {
    if gpu.check().is_err() || crate::exec::threads::stopping() {
        return;
    }
    match work(turn.ready) {
        Ok(end) => turn.end = end,
        Err(error) => gpu.fail(error),
    }
}

/// Rows of device memory to set.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    /// Where.
    pub to: usize,
    /// Bytes from row to row.
    pub pitch: usize,
    /// What each byte becomes.
    pub value: u8,
    /// Bytes of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl Fill {
    fn check(&self) -> Result {
        if self.width == 0 || self.height == 0 {
            return Ok(());
        }
        check_device(self.to, self.pitch * (self.height - 1) + self.width, true)
    }

    fn perform(&self) -> Result {
        let Fill {
            to,
            pitch,
            value,
            width,
            height,
        } = *self;
        let set = fault::guarded(|| {
            for row in 0..height {
                // SAFETY: the range was checked; should it have gone since, the fault is caught.
                unsafe { std::ptr::write_bytes((to + row * pitch) as *mut u8, value, width) };
            }
        });
        set?.map_err(faulted)
    }
}

/// Sets device memory in a stream; waits for it if `wait`.
///
/// # Errors
/// What is wrong with the range; without waiting, what goes wrong later sticks to the device.
pub fn fill(gpu: &'static Gpu, stream: &Arc<Stream>, fill: Fill, wait: bool) -> Result {
    fill.check()?;
    let bytes = fill.width as u64 * fill.height as u64;
    if bytes == 0 {
        return Ok(());
    }
    if wait {
        return gpu.streams.run(stream, |turn| {
            gpu.check()?;
            fill.perform()?;
            turn.end = booking::within(gpu, bytes, turn.ready);
            Ok(())
        });
    }
    gpu.streams.submit(stream, move |turn| {
        later(gpu, turn, |ready| {
            fill.perform()?;
            Ok(booking::within(gpu, bytes, ready))
        });
    });
    Ok(())
}
