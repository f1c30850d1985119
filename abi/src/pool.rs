//! Memory pools, from which allocation in stream order takes its memory.

use core::ffi::c_void;

use crate::location::MemLocation;

/// `cudaMemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemPoolProps {
    /// `cudaMemAllocationType`.
    pub alloc_type: i32,
    /// `cudaMemAllocationHandleType`s, with which processes share the memory.
    pub handle_types: i32,
    /// Where the memory lies.
    pub location: MemLocation,
    /// Of meaning on Windows only.
    pub win32_security_attributes: *mut c_void,
    /// Bytes at most; zero: as many as the device has.
    pub max_size: usize,
    /// A set of flags.
    pub usage: u16,
    /// Must be zero.
    pub reserved: [u8; 54],
}

impl MemPoolProps {
    /// Pinned memory of a device, not shared, of any size: what a device's default pool has.
    pub fn of_device(ordinal: i32) -> MemPoolProps {
        MemPoolProps {
            alloc_type: ALLOCATION_PINNED,
            handle_types: 0,
            location: MemLocation::device(ordinal),
            win32_security_attributes: core::ptr::null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        }
    }
}

/// `cudaMemAccessDesc` and `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemAccessDesc {
    /// Which device may use the memory.
    pub location: MemLocation,
    /// `cudaMemAccessFlags`.
    pub flags: i32,
}

/// `cudaMemAllocationTypePinned` and `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub const ALLOCATION_PINNED: i32 = 1;

/// `cudaMemAccessFlagsProtNone`.
pub const ACCESS_NONE: i32 = 0;
/// `cudaMemAccessFlagsProtRead`.
pub const ACCESS_READ: i32 = 1;
/// `cudaMemAccessFlagsProtReadWrite`.
pub const ACCESS_READ_WRITE: i32 = 3;

/// `cudaMemPoolReuseFollowEventDependencies`, the first of three switches, which are ints.
pub const POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES: u32 = 1;
/// `cudaMemPoolReuseAllowInternalDependencies`, the last of the switches.
pub const POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES: u32 = 3;
/// `cudaMemPoolAttrReleaseThreshold`; it and the attributes after it are 64-bit numbers of bytes.
pub const POOL_RELEASE_THRESHOLD: u32 = 4;
/// `cudaMemPoolAttrReservedMemCurrent`.
pub const POOL_RESERVED_CURRENT: u32 = 5;
/// `cudaMemPoolAttrReservedMemHigh`.
pub const POOL_RESERVED_HIGH: u32 = 6;
/// `cudaMemPoolAttrUsedMemCurrent`.
pub const POOL_USED_CURRENT: u32 = 7;
/// `cudaMemPoolAttrUsedMemHigh`.
pub const POOL_USED_HIGH: u32 = 8;

const _: () = {
    assert!(size_of::<MemPoolProps>() == 88 && core::mem::offset_of!(MemPoolProps, max_size) == 24);
    assert!(size_of::<MemAccessDesc>() == 12);
};
