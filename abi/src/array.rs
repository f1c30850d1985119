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
    /// Bytes that an array needs.
    pub size: usize,
    /// Alignment in bytes.
    pub alignment: usize,
    /// Must be zero.
    pub reserved: [c_uint; 4],
}

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayDescriptor {
    /// Elements of a row.
    pub width: usize,
    /// Rows; zero for one dimension.
    pub height: usize,
    /// `CUarray_format`: what a channel is.
    pub format: u32,
    /// Channels of an element.
    pub channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Array3DDescriptor {
    /// Elements of a row.
    pub width: usize,
    /// Rows; zero for one dimension.
    pub height: usize,
    /// Planes or layers; zero for fewer dimensions.
    pub depth: usize,
    /// `CUarray_format`: what a channel is.
    pub format: u32,
    /// Channels of an element.
    pub channels: c_uint,
    /// The same bits as the runtime's `cudaArrayLayered` and its like.
    pub flags: c_uint,
}

/// `CU_AD_FORMAT_UNSIGNED_INT8`,
pub const FORMAT_UNSIGNED_INT8: u32 = 0x01;
/// `CU_AD_FORMAT_UNSIGNED_INT16`,
pub const FORMAT_UNSIGNED_INT16: u32 = 0x02;
/// `CU_AD_FORMAT_UNSIGNED_INT32`,
pub const FORMAT_UNSIGNED_INT32: u32 = 0x03;
/// `CU_AD_FORMAT_SIGNED_INT8`,
pub const FORMAT_SIGNED_INT8: u32 = 0x08;
/// `CU_AD_FORMAT_SIGNED_INT16`,
pub const FORMAT_SIGNED_INT16: u32 = 0x09;
/// `CU_AD_FORMAT_SIGNED_INT32`,
pub const FORMAT_SIGNED_INT32: u32 = 0x0a;
/// `CU_AD_FORMAT_HALF`,
pub const FORMAT_HALF: u32 = 0x10;
/// `CU_AD_FORMAT_FLOAT`.
pub const FORMAT_FLOAT: u32 = 0x20;

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
    assert!(size_of::<ArrayDescriptor>() == 24);
    assert!(size_of::<Array3DDescriptor>() == 40);
};
