//! Device memory that processes share: what `cudaIpcMemHandle_t` stands for.
//!
//! Memory that is shared lies in a file in memory, large allocations from their first handle on. The owner is
//! charged; processes that open it are not. What the owner frees stays readable for those who have it open.

use std::os::fd::{AsRawFd, OwnedFd};

use mgb_abi::ipc::HANDLE_BYTES;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::ipc::Header;

/// What a handle holds: as large as CUDA's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryHandle {
    /// The header of the shared file.
    pub header: Header,
    /// Of the device on the node.
    pub index: u64,
    /// Bytes of the part of the file that is mapped.
    pub length: u64,
    /// Where the allocation begins in that part.
    pub offset: u64,
    /// Bytes of the allocation.
    pub size: u64,
    /// Where the part begins in the file.
    pub at: u64,
}

/// What handles to memory begin with.
pub const MAGIC: [u8; 8] = *b"sgpu-ipc";

const _: () = assert!(size_of::<MemoryHandle>() == HANDLE_BYTES);

/// One opened handle.
pub struct OpenedHandle {
    /// The handle that was opened.
    pub handle: MemoryHandle,
    /// The device on which it was opened.
    pub ordinal: usize,
    /// Where the file is mapped.
    pub base: usize,
    /// How often it was opened.
    pub count: u32,
}

/// The handles that this process has open.
pub static OPEN: Mutex<Vec<OpenedHandle>> = Mutex::new(Vec::new());

/// A device's memory is gone with its context.
pub fn forget(ordinal: usize) {
    OPEN.lock().retain(|open| open.ordinal != ordinal);
}

/// What the heap says of memory that is in a file.
pub struct SharedAllocation {
    /// A descriptor of its own.
    pub file: OwnedFd,
    /// The heap's descriptor, which stays open.
    pub number: i32,
    /// Where the part that others map begins in the file.
    pub at: u64,
    /// Bytes of that part.
    pub length: usize,
    /// Where the allocation begins in it.
    pub offset: usize,
    /// Bytes of the allocation.
    pub size: usize,
}

impl MemoryHandle {
    /// Where the part begins in the file, its bytes, where the allocation begins in it, and the allocation's
    /// bytes.
    pub fn extent(&self) -> (u64, usize, usize, usize) {
        (
            self.at,
            self.length as usize,
            self.offset as usize,
            self.size as usize,
        )
    }
}

impl SharedAllocation {
    /// Of a part of a file.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM` for no descriptor.
    pub fn of(
        file: &OwnedFd,
        at: u64,
        length: usize,
        offset: usize,
        size: usize,
    ) -> Result<SharedAllocation> {
        Ok(SharedAllocation {
            file: file.try_clone().map_err(|_| Error::OPERATING_SYSTEM)?,
            number: file.as_raw_fd(),
            at,
            length,
            offset,
            size,
        })
    }
}
