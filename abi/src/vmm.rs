//! The driver's virtual memory management.

use core::ffi::c_void;

use crate::location::MemLocation;

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemAllocationProp {
    /// `CUmemAllocationType`.
    pub alloc_type: i32,
    /// `CUmemAllocationHandleType`s, with which processes share the memory.
    pub handle_types: i32,
    /// Where the memory lies.
    pub location: MemLocation,
    /// Of meaning on Windows only.
    pub win32_handle_metadata: *mut c_void,
    /// Compression, RDMA and usage.
    pub alloc_flags: [u8; 8],
}

const _: () = assert!(size_of::<MemAllocationProp>() == 32);
