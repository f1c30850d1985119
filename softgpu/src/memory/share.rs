//! Device memory that processes share: what `cudaIpcMemHandle_t` stands for.
//!
//! The first handle to memory moves it into a file in memory. The owner is charged; processes that open it
//! are not. What the owner frees stays readable for those who have it open.

use std::os::fd::{AsRawFd, OwnedFd};

use mgb_abi::ipc::HANDLE_BYTES;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::ipc::Header;

/// What a handle holds: as large as CUDA's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The file.
    pub header: Header,
    /// Of the device on the node.
    pub index: u64,
    /// Bytes of the file.
    pub length: u64,
    /// Where the allocation begins in it.
    pub offset: u64,
    /// Bytes of the allocation.
    pub size: u64,
    /// Zero.
    pub reserved: u64,
}

/// What handles to memory begin with.
pub const MAGIC: [u8; 8] = *b"sgpu-ipc";

const _: () = assert!(size_of::<Handle>() == HANDLE_BYTES);

/// One opened handle.
pub struct Open {
    /// The handle.
    pub handle: Handle,
    /// The device on which it was opened.
    pub ordinal: usize,
    /// Where the file is mapped.
    pub base: usize,
    /// How often it was opened.
    pub count: u32,
}

/// The handles that this process has open.
pub static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

/// A device's memory is gone with its context.
pub fn forget(ordinal: usize) {
    OPEN.lock().retain(|open| open.ordinal != ordinal);
}

/// What the heap says of memory that is in a file.
pub struct Shared {
    /// A descriptor of its own.
    pub file: OwnedFd,
    /// The heap's descriptor, which stays open.
    pub number: i32,
    /// Bytes of the file.
    pub length: usize,
    /// Where the allocation begins in it.
    pub offset: usize,
    /// Bytes of the allocation.
    pub size: usize,
}

impl Handle {
    /// Bytes of the file, where the allocation begins in it, and its bytes.
    pub fn extent(&self) -> (usize, usize, usize) {
        (self.length as usize, self.offset as usize, self.size as usize)
    }
}

impl Shared {
    /// Of a file.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM` for no descriptor.
    pub fn of(file: &OwnedFd, length: usize, offset: usize, size: usize) -> Result<Shared> {
        Ok(Shared {
            file: file.try_clone().map_err(|_| Error::OPERATING_SYSTEM)?,
            number: file.as_raw_fd(),
            length,
            offset,
            size,
        })
    }
}
