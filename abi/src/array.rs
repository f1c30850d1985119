//! Arrays and the format of their elements.

use core::ffi::{c_int, c_uint};

/// `cudaChannelFormatDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFormatDesc {
    /// Bits of the first channel.
    pub x: c_int,
    /// Bits of the second channel.
    pub y: c_int,
    /// Bits of the third channel.
    pub z: c_int,
    /// Bits of the fourth channel.
    pub w: c_int,
    /// `cudaChannelFormatKind`.
    pub f: c_int,
}

impl ChannelFormatDesc {
    /// Bits of each channel.
    pub fn bits(&self) -> [c_int; 4] {
        [self.x, self.y, self.z, self.w]
    }
}

/// `cudaArrayMemoryRequirements`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArrayMemoryRequirements {
    /// Bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub alignment: usize,
    /// Zero.
    pub reserved: [c_uint; 4],
}

/// `cudaArrayLayered`.
pub const ARRAY_LAYERED: u32 = 1;
/// `cudaArraySurfaceLoadStore`.
pub const ARRAY_SURFACE_LOAD_STORE: u32 = 2;
/// `cudaArrayCubemap`.
pub const ARRAY_CUBEMAP: u32 = 4;
/// `cudaArrayTextureGather`.
pub const ARRAY_TEXTURE_GATHER: u32 = 8;

const _: () = {
    assert!(size_of::<ChannelFormatDesc>() == 20);
    assert!(size_of::<ArrayMemoryRequirements>() == 32);
};
