//! A copy of a box of bytes: which way it goes, and moving the bytes.

use mgb_abi::copy::{DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST};

use super::faulted::faulted;
use crate::address::{AddressKind, check_device, locate};
use crate::error::{Error, Result};
use crate::exec::fault;
use crate::memory::region::{Side, Size};

/// A copy between two places in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCopy {
    /// The place that is written.
    pub to: Side,
    /// The place that is read.
    pub from: Side,
    /// The size of what is copied.
    pub size: Size,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// From host to host.
    Host,
    /// From the host to a device.
    ToDevice,
    /// From a device to the host.
    FromDevice,
    /// From device memory to device memory.
    Within,
}

impl CopyDirection {
    /// `cudaMemcpyKind`.
    pub fn kind(self) -> u32 {
        match self {
            CopyDirection::Host => HOST_TO_HOST,
            CopyDirection::ToDevice => HOST_TO_DEVICE,
            CopyDirection::FromDevice => DEVICE_TO_HOST,
            CopyDirection::Within => DEVICE_TO_DEVICE,
        }
    }
}

impl MemoryCopy {
    /// A plain copy.
    pub fn bytes(to: usize, from: usize, count: usize) -> MemoryCopy {
        MemoryCopy {
            to: Side::plain(to),
            from: Side::plain(from),
            size: Size::row(count),
        }
    }

    /// Decides which way the bytes go, as `cudaMemcpyKind` says and the pointers allow.
    ///
    /// # Errors
    /// `INVALID_MEMCPY_DIRECTION` for no such kind, `INVALID_VALUE` for pointers that are not what it
    /// says, and those of [`check_device`].
    pub fn way(&self, kind: u32) -> Result<CopyDirection> {
        let (to, from) = (locate(self.to.at), locate(self.from.at));
        let fits = |at: AddressKind, device: bool| {
            if device { at.is_device() } else { at.is_host() }
        };
        let way = match kind {
            HOST_TO_HOST => CopyDirection::Host,
            HOST_TO_DEVICE => CopyDirection::ToDevice,
            DEVICE_TO_HOST => CopyDirection::FromDevice,
            DEVICE_TO_DEVICE => CopyDirection::Within,
            DEFAULT => match (to.is_device(), from.is_device()) {
                (false, false) => CopyDirection::Host,
                (true, false) => CopyDirection::ToDevice,
                (false, true) => CopyDirection::FromDevice,
                (true, true) => CopyDirection::Within,
            },
            _ => return Err(Error::INVALID_MEMCPY_DIRECTION),
        };
        let (to_device, from_device) = match way {
            CopyDirection::Host => (false, false),
            CopyDirection::ToDevice => (true, false),
            CopyDirection::FromDevice => (false, true),
            CopyDirection::Within => (true, true),
        };
        if !fits(to, to_device) || !fits(from, from_device) {
            return Err(Error::INVALID_VALUE);
        }
        if to_device && to.is_device() {
            check_device(self.to.at, self.size.span(&self.to), true)?;
        }
        if from_device && from.is_device() {
            check_device(self.from.at, self.size.span(&self.from), false)?;
        }
        Ok(way)
    }

    /// Moves the bytes.
    ///
    /// # Errors
    /// `ILLEGAL_ADDRESS` or `INVALID_VALUE` where one side has no memory.
    pub fn perform(&self) -> Result {
        let MemoryCopy { to, from, size } = *self;
        let moved = fault::guarded(|| {
            for (to, from) in size.rows(to, from) {
                // SAFETY: device ranges were checked; host ranges are the caller's, whose faults
                // are caught.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, size.width) };
            }
        });
        moved?.map_err(faulted)
    }
}
