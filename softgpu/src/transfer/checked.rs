//! A copy that has been checked, with the device that does it.

use super::copy::{CopyDirection, MemoryCopy};
use crate::address::{AddressKind, locate};
use crate::device::{Gpu, node};
use crate::error::{Error, Result};
use crate::memory::region::Side;
use crate::memory::{pool, vmm};
use crate::time::booking::{self, Direction};

/// A copy that has been checked.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// What is copied.
    pub copy: MemoryCopy,
    /// Which way the bytes go.
    pub way: CopyDirection,
    /// Whether the host's side is pinned.
    pub pinned: bool,
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
    pub fn new(gpu: &Gpu, copy: MemoryCopy, kind: u32) -> Result<Transfer> {
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
        self.named || self.way != CopyDirection::Within || (is_open(self.copy.to) && is_open(self.copy.from))
    }

    /// Checks a copy whose call names the devices that the memory is on.
    ///
    /// # Errors
    /// Those of [`MemoryCopy::way`]; `INVALID_VALUE` for memory of another device's pool.
    pub fn of_named(gpu: &Gpu, copy: MemoryCopy, kind: u32) -> Result<Transfer> {
        let way = copy.way(kind)?;
        let is_open = |side: Side| pool::is_open_to(side.at, gpu.ordinal);
        if way == CopyDirection::Within && !(is_open(copy.to) && is_open(copy.from)) {
            return Err(Error::INVALID_VALUE);
        }
        let host = if way == CopyDirection::ToDevice {
            copy.from
        } else {
            copy.to
        };
        let pinned = way == CopyDirection::Within || !matches!(locate(host.at), AddressKind::Host);
        let between = match (locate(copy.from.at).ordinal(), locate(copy.to.at).ordinal()) {
            (Some(from), Some(to)) if way == CopyDirection::Within && from != to => Some((from, to)),
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

    /// The same copy from other bytes of the host.
    pub fn with_source(self, from: Side) -> Transfer {
        let copy = MemoryCopy { from, ..self.copy };
        Transfer { copy, ..self }
    }

    /// Moves the bytes; returns the modelled end.
    ///
    /// # Errors
    /// Those of [`MemoryCopy::perform`]; `ILLEGAL_ADDRESS` for mapped memory that the device may not use any more.
    pub fn run(&self, gpu: &Gpu, ready: u64) -> Result<u64> {
        if !self.is_open_to(gpu) {
            return Err(Error::ILLEGAL_ADDRESS);
        }
        self.copy.perform()?;
        let bytes = self.copy.size.bytes();
        if let Some((from, to)) = self.between {
            let node = node()?;
            let (from, to) = (node.gpu(from as i32)?, node.gpu(to as i32)?);
            return Ok(booking::between(&from.device(), &to.device(), bytes, ready));
        }
        Ok(match self.way {
            CopyDirection::Host => ready,
            CopyDirection::ToDevice => {
                booking::copy(&gpu.device(), Direction::ToDevice, bytes, self.pinned, ready)
            }
            CopyDirection::FromDevice => {
                booking::copy(&gpu.device(), Direction::FromDevice, bytes, self.pinned, ready)
            }
            CopyDirection::Within => booking::within(&gpu.device(), 2 * bytes, ready),
        })
    }
}
