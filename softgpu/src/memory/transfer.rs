//! Copies and sets in streams: checked when called, done in their turn.
//!
//! Host bytes are consumed when CUDA says so: a copy from pageable memory has read them when the call
//! returns (small ones are put aside, large ones waited for); one from pinned memory reads them
//! in its turn.

use std::sync::Arc;

use super::region::{Copy, Fill, Side, Way};
use super::{Place, locate, pool, vmm};
use crate::device::{Gpu, node};
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::time::booking::{self, Direction};
use crate::work::{self, Action, Work};

/// Copies from pageable memory up to this size are put aside, as the driver does.
const ASIDE: usize = 64 << 10;

/// A copy that has been checked.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// What is copied.
    pub copy: Copy,
    /// Which way.
    pub way: Way,
    /// Whether the host's side is pinned.
    pinned: bool,
    /// The ordinals of two devices that it goes between.
    between: Option<(usize, usize)>,
    /// The call names the devices.
    named: bool,
}

impl Transfer {
    /// Checks a copy that is done by a device.
    ///
    /// # Errors
    /// Those of [`Transfer::of_named`]; `INVALID_VALUE` for mapped memory that the device may not use.
    pub fn new(gpu: &Gpu, copy: Copy, kind: u32) -> Result<Transfer> {
        crate::fail::copy(gpu.index)?;
        let transfer = Transfer {
            named: false,
            ..Transfer::of_named(gpu, copy, kind)?
        };
        transfer
            .is_open_to(gpu)
            .then_some(transfer)
            .ok_or(Error::INVALID_VALUE)
    }

    /// Whether the device may use the mapped memory of both sides.
    fn is_open_to(&self, gpu: &Gpu) -> bool {
        let is_open = |side: Side| vmm::with(|vmm| vmm.is_open_to(side.at, gpu.ordinal));
        self.named || self.way != Way::Within || (is_open(self.copy.to) && is_open(self.copy.from))
    }

    /// Checks a copy whose call names the devices that the memory is on.
    ///
    /// # Errors
    /// Those of [`Copy::way`]; `INVALID_VALUE` for memory of another device's pool.
    pub fn of_named(gpu: &Gpu, copy: Copy, kind: u32) -> Result<Transfer> {
        let way = copy.way(kind)?;
        let is_open = |side: Side| pool::is_open_to(side.at, gpu.ordinal);
        if way == Way::Within && !(is_open(copy.to) && is_open(copy.from)) {
            return Err(Error::INVALID_VALUE);
        }
        let host = if way == Way::ToDevice { copy.from } else { copy.to };
        let pinned = way == Way::Within || !matches!(locate(host.at), Place::Host);
        let between = match (locate(copy.from.at).ordinal(), locate(copy.to.at).ordinal()) {
            (Some(from), Some(to)) if way == Way::Within && from != to => Some((from, to)),
            _ => None,
        };
        Ok(Transfer {
            copy,
            way,
            pinned,
            between,
            named: true,
        })
    }

    /// Does it in a stream's turn, and waits until it is done.
    ///
    /// # Errors
    /// What is wrong with the device by the time the copy's turn came.
    pub fn wait_for(self, gpu: &'static Gpu, stream: &Arc<Stream>) -> Result {
        let action = Action::Copy(self);
        Work { gpu, action }.wait_for(stream)
    }

    /// Does it in a stream's turn; the caller goes on where CUDA lets it.
    ///
    /// # Errors
    /// Those of waiting; what goes wrong later sticks to the device.
    pub fn issue(self, gpu: &'static Gpu, stream: &Arc<Stream>) -> Result {
        let copy = self.copy;
        let work = Work {
            gpu,
            action: Action::Copy(self),
        };
        if self.pinned || stream.captures() {
            return work::issue(stream, work);
        }
        let one_row = copy.size.height == 1 && copy.size.depth == 1;
        if self.way != Way::ToDevice || !one_row || copy.size.width > ASIDE {
            return work.wait_for(stream);
        }
        // SAFETY: the caller's buffer of this size, as CUDA's contract has it.
        let kept = unsafe { std::slice::from_raw_parts(copy.from.at as *const u8, copy.size.width) }.to_vec();
        gpu.streams.submit(stream, move |turn| {
            let from = Side::plain(kept.as_ptr() as usize);
            let copy = Copy { from, ..copy };
            let action = Action::Copy(Transfer { copy, ..self });
            Work { gpu, action }.run_later(turn);
        });
        Ok(())
    }

    /// Moves the bytes; returns the modelled end.
    ///
    /// # Errors
    /// Those of [`Copy::perform`]; `ILLEGAL_ADDRESS` for mapped memory that the device may not use any more.
    pub fn run(&self, gpu: &Gpu, ready: u64) -> Result<u64> {
        if !self.is_open_to(gpu) {
            return Err(Error::ILLEGAL_ADDRESS);
        }
        self.copy.perform()?;
        let bytes = self.copy.size.bytes();
        if let Some((from, to)) = self.between {
            let node = node()?;
            let (from, to) = (node.gpu(from as i32)?, node.gpu(to as i32)?);
            return Ok(booking::between(from, to, bytes, ready));
        }
        Ok(match self.way {
            Way::Host => ready,
            Way::ToDevice => booking::copy(gpu, Direction::ToDevice, bytes, self.pinned, ready),
            Way::FromDevice => booking::copy(gpu, Direction::FromDevice, bytes, self.pinned, ready),
            Way::Within => booking::within(gpu, 2 * bytes, ready),
        })
    }
}

/// Sets device memory; returns the modelled end.
///
/// # Errors
/// Those of [`Fill::perform`].
pub fn set(gpu: &Gpu, fill: &Fill, ready: u64) -> Result<u64> {
    fill.perform()?;
    Ok(booking::within(gpu, fill.size.bytes(), ready))
}

/// Copies in a stream, and waits until it is done.
///
/// # Errors
/// What is wrong with the copy, or with the device by the time the copy's turn came.
pub fn copy(gpu: &'static Gpu, stream: &Arc<Stream>, copy: Copy, kind: u32) -> Result {
    if copy.size.bytes() == 0 {
        return Ok(());
    }
    Transfer::new(gpu, copy, kind)?.wait_for(gpu, stream)
}

/// Copies in a stream; the caller goes on where CUDA lets it.
///
/// # Errors
/// What is wrong with the copy; what goes wrong later sticks to the device.
pub fn copy_async(gpu: &'static Gpu, stream: &Arc<Stream>, copy: Copy, kind: u32) -> Result {
    if copy.size.bytes() == 0 {
        return Ok(());
    }
    Transfer::new(gpu, copy, kind)?.issue(gpu, stream)
}

/// Sets device memory in a stream; waits for it if `wait`.
///
/// # Errors
/// What is wrong with the range; without waiting, what goes wrong later sticks to the device.
pub fn fill(gpu: &'static Gpu, stream: &Arc<Stream>, fill: Fill, wait: bool) -> Result {
    if fill.size.bytes() == 0 {
        return Ok(());
    }
    fill.check()?;
    let action = Action::Fill(fill);
    let work = Work { gpu, action };
    if wait {
        work.wait_for(stream)
    } else {
        work::issue(stream, work)
    }
}
