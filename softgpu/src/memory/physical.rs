//! The memory behind VMM handles: a sparse file in memory per device, handed out by offsets. One
//! file, not one per handle, so that neighbours join into one mapping and descriptors do not run out.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SeekFrom};

use super::extents::FreeExtents;
use crate::error::{Error, Result};

/// The file of one device.
#[derive(Debug, Default)]
pub struct DeviceFile {
    file: Option<OwnedFd>,
    free: FreeExtents,
    end: usize,
}

impl DeviceFile {
    /// Takes `length` zeroed bytes; returns their offset.
    pub fn take(&mut self, length: usize) -> Result<usize> {
        if self.file.is_none() {
            self.file = Some(new_file()?);
        }
        if let Some(offset) = self.free.take(length) {
            return Ok(offset);
        }
        let offset = self.end;
        rustix::fs::ftruncate(self.file(), (offset + length) as u64).map_err(|_| Error::MEMORY_ALLOCATION)?;
        self.end = offset + length;
        Ok(offset)
    }

    /// Gives bytes back; the host's memory behind them is freed.
    pub fn give(&mut self, offset: usize, length: usize) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Should the hole not be punched, the bytes are not zero for the next owner, as CUDA allows.
        let _ = rustix::fs::fallocate(self.file(), hole, offset as u64, length as u64);
        self.free.give(offset, length);
    }

    /// The file; there is one once something was taken.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file
            .as_ref()
            .expect("a handle exists, so its file does")
            .as_fd()
    }
}

fn new_file() -> Result<OwnedFd> {
    rustix::fs::memfd_create("softgpu-device-memory", MemfdFlags::CLOEXEC)
        .map_err(|_| Error::OPERATING_SYSTEM)
}

/// What an exported descriptor's position counts in: as [`super::vmm::GRANULE`].
const UNIT: u64 = 2 << 20;
/// Bits of the position that hold the length.
const LENGTH_BITS: u32 = 24;

/// A descriptor of a part of the file, for other processes. Its own position, which nobody else uses, says
/// which part: so exportable memory costs no descriptor until it is exported.
///
/// # Errors
/// `OPERATING_SYSTEM`.
pub fn descriptor_of(file: BorrowedFd<'_>, offset: usize, length: usize) -> Result<OwnedFd> {
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    let own = rustix::fs::open(name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let own = own.map_err(|_| Error::OPERATING_SYSTEM)?;
    let position = ((offset as u64 / UNIT) << LENGTH_BITS) | (length as u64 / UNIT);
    rustix::fs::seek(&own, SeekFrom::Start(position)).map_err(|_| Error::OPERATING_SYSTEM)?;
    Ok(own)
}

/// Where the part that [`descriptor_of`] has made a descriptor of begins, and its bytes.
///
/// # Errors
/// `INVALID_VALUE` for another descriptor.
pub fn part_of(file: BorrowedFd<'_>) -> Result<(usize, usize)> {
    let position = rustix::fs::seek(file, SeekFrom::Current(0)).map_err(|_| Error::INVALID_VALUE)?;
    let bytes = rustix::fs::fstat(file).map_err(|_| Error::INVALID_VALUE)?.st_size as u64;
    let (offset, length) = (
        (position >> LENGTH_BITS) * UNIT,
        (position & ((1 << LENGTH_BITS) - 1)) * UNIT,
    );
    if length == 0 || offset + length > bytes {
        return Err(Error::INVALID_VALUE);
    }
    Ok((offset as usize, length as usize))
}
