//! What the runtime says about an address.

use core::ffi::c_void;

/// `cudaPointerAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PointerAttributes {
    /// `cudaMemoryType`.
    pub kind: i32,
    /// Ordinal of the device; `cudaInvalidDeviceId` for memory that CUDA does not know.
    pub device: i32,
    /// The address that the device uses.
    pub device_pointer: *mut c_void,
    /// The address that the host uses.
    pub host_pointer: *mut c_void,
    /// Must be zero.
    pub reserved: [i64; 8],
}

/// `cudaMemoryTypeUnregistered`: ordinary host memory.
pub const MEMORY_UNREGISTERED: i32 = 0;
/// `cudaMemoryTypeHost`: pinned host memory.
pub const MEMORY_HOST: i32 = 1;
/// `cudaMemoryTypeDevice`.
pub const MEMORY_DEVICE: i32 = 2;
/// `cudaMemoryTypeManaged`.
pub const MEMORY_MANAGED: i32 = 3;

const _: () = assert!(size_of::<PointerAttributes>() == 88);
