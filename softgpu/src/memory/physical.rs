//! The memory behind VMM handles: a sparse file in memory per device, handed out by offsets. One
//! file, not one per handle, so that neighbours join into one mapping and descriptors do not run out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags};

use super::extents::Extents;
use crate::error::{Error, Result};

/// The file of one device.
#[derive(Debug, Default)]
pub struct Physical {
    file: Option<OwnedFd>,
    free: Extents,
    end: usize,
}

impl Physical {
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

/// A file of zeroed bytes for memory that other processes may have.
///
/// # Errors
/// `OPERATING_SYSTEM`, `MEMORY_ALLOCATION`.
pub fn file_of(length: usize) -> Result<OwnedFd> {
    let file = new_file()?;
    rustix::fs::ftruncate(&file, length as u64).map_err(|_| Error::MEMORY_ALLOCATION)?;
    Ok(file)
}
