//! Texture and surface objects: what they read, and how. The driver's structures say the same as the
//! runtime's in other words.

use core::ffi::{c_float, c_int, c_uint};

use crate::array::ChannelFormatDesc;

/// `cudaResourceTypeArray`, `CU_RESOURCE_TYPE_ARRAY`,
pub const RESOURCE_ARRAY: u32 = 0;
/// `cudaResourceTypeMipmappedArray`,
pub const RESOURCE_MIPMAPPED_ARRAY: u32 = 1;
/// `cudaResourceTypeLinear`,
pub const RESOURCE_LINEAR: u32 = 2;
/// `cudaResourceTypePitch2D`.
pub const RESOURCE_PITCH_2D: u32 = 3;

/// `cudaAddressModeWrap`,
pub const ADDRESS_WRAP: u32 = 0;
/// `cudaAddressModeClamp`,
pub const ADDRESS_CLAMP: u32 = 1;
/// `cudaAddressModeMirror`,
pub const ADDRESS_MIRROR: u32 = 2;
/// `cudaAddressModeBorder`.
pub const ADDRESS_BORDER: u32 = 3;

/// `cudaFilterModePoint`,
pub const FILTER_POINT: u32 = 0;
/// `cudaFilterModeLinear`.
pub const FILTER_LINEAR: u32 = 1;

/// `cudaReadModeElementType`,
pub const READ_ELEMENT_TYPE: u32 = 0;
/// `cudaReadModeNormalizedFloat`.
pub const READ_NORMALIZED_FLOAT: u32 = 1;

/// `cudaBoundaryModeZero`,
pub const BOUNDARY_ZERO: u32 = 0;
/// `cudaBoundaryModeClamp`,
pub const BOUNDARY_CLAMP: u32 = 1;
/// `cudaBoundaryModeTrap`.
pub const BOUNDARY_TRAP: u32 = 2;

/// `CU_TRSF_READ_AS_INTEGER`,
pub const FLAG_READ_AS_INTEGER: u32 = 0x01;
/// `CU_TRSF_NORMALIZED_COORDINATES`,
pub const FLAG_NORMALIZED_COORDINATES: u32 = 0x02;
/// `CU_TRSF_SRGB`,
pub const FLAG_SRGB: u32 = 0x10;
/// `CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION`,
pub const FLAG_DISABLE_TRILINEAR_OPTIMIZATION: u32 = 0x20;
/// `CU_TRSF_SEAMLESS_CUBEMAP`.
pub const FLAG_SEAMLESS_CUBEMAP: u32 = 0x40;

/// `cudaResViewFormatNone`,
pub const VIEW_FORMAT_NONE: u32 = 0;
/// `cudaResViewFormatFloat4`: the last one whose elements stand by themselves.
pub const VIEW_FORMAT_FLOAT4: u32 = 0x18;

/// The member `linear` of [`Resource`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Linear {
    pub address: usize,
    pub format: ChannelFormatDesc,
    pub bytes: usize,
}

/// The member `pitch2D` of [`Resource`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Pitch2D {
    pub address: usize,
    pub format: ChannelFormatDesc,
    pub width: usize,
    pub height: usize,
    pub pitch: usize,
}

/// The union of `cudaResourceDesc`: `kind` says which member it holds.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Resource {
    /// `RESOURCE_ARRAY`: `cudaArray_t`. `RESOURCE_MIPMAPPED_ARRAY`: `cudaMipmappedArray_t`.
    pub array: usize,
    /// `RESOURCE_LINEAR`
    pub linear: Linear,
    /// `RESOURCE_PITCH_2D`
    pub pitched: Pitch2D,
    /// The size of all of them.
    pub reserved: [c_int; 32],
}

/// `cudaResourceDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ResourceDesc {
    /// `RESOURCE_*`
    pub kind: u32,
    /// What is read.
    pub resource: Resource,
    /// Must be zero.
    pub flags: c_uint,
}

/// The member `linear` of [`DriverResource`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct DriverLinear {
    pub address: usize,
    /// `CUarray_format`
    pub format: u32,
    pub channels: c_uint,
    pub bytes: usize,
}

/// The member `pitch2D` of [`DriverResource`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct DriverPitch2D {
    pub address: usize,
    /// `CUarray_format`
    pub format: u32,
    pub channels: c_uint,
    pub width: usize,
    pub height: usize,
    pub pitch: usize,
}

/// The union of `CUDA_RESOURCE_DESC`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union DriverResource {
    /// `RESOURCE_ARRAY`: `CUarray`. `RESOURCE_MIPMAPPED_ARRAY`: `CUmipmappedArray`.
    pub array: usize,
    /// `RESOURCE_LINEAR`
    pub linear: DriverLinear,
    /// `RESOURCE_PITCH_2D`
    pub pitched: DriverPitch2D,
    /// The size of all of them.
    pub reserved: [c_int; 32],
}

/// `CUDA_RESOURCE_DESC`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DriverResourceDesc {
    /// `RESOURCE_*`
    pub kind: u32,
    /// What is read.
    pub resource: DriverResource,
    /// Must be zero.
    pub flags: c_uint,
}

/// `cudaTextureDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextureDesc {
    /// `ADDRESS_*` of each dimension.
    pub address: [u32; 3],
    /// `FILTER_*`
    pub filter: u32,
    /// `READ_*`
    pub read: u32,
    /// Whether 8-bit numbers are converted from sRGB.
    pub srgb: c_int,
    /// What is read outside with `ADDRESS_BORDER`; for integers their bits.
    pub border: [c_float; 4],
    /// Whether coordinates go from 0 to 1.
    pub normalized: c_int,
    /// `maxAnisotropy`
    pub anisotropy: c_uint,
    /// `FILTER_*` between levels.
    pub mipmap_filter: u32,
    /// `mipmapLevelBias`
    pub mipmap_bias: c_float,
    /// `minMipmapLevelClamp`
    pub mipmap_least: c_float,
    /// `maxMipmapLevelClamp`
    pub mipmap_most: c_float,
    /// `disableTrilinearOptimization`
    pub exact_trilinear: c_int,
    /// `seamlessCubemap`
    pub seamless: c_int,
}

/// `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DriverTextureDesc {
    /// `ADDRESS_*` of each dimension.
    pub address: [u32; 3],
    /// `FILTER_*`
    pub filter: u32,
    /// `FLAG_*`
    pub flags: c_uint,
    /// `maxAnisotropy`
    pub anisotropy: c_uint,
    /// `FILTER_*` between levels.
    pub mipmap_filter: u32,
    /// `mipmapLevelBias`
    pub mipmap_bias: c_float,
    /// `minMipmapLevelClamp`
    pub mipmap_least: c_float,
    /// `maxMipmapLevelClamp`
    pub mipmap_most: c_float,
    /// What is read outside with `ADDRESS_BORDER`; for integers their bits.
    pub border: [c_float; 4],
    /// Must be zero.
    pub reserved: [c_int; 12],
}

/// `cudaResourceViewDesc` and `CUDA_RESOURCE_VIEW_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ResourceViewDesc {
    /// `cudaResourceViewFormat`
    pub format: u32,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub first_level: c_uint,
    pub last_level: c_uint,
    pub first_layer: c_uint,
    pub last_layer: c_uint,
    /// Must be zero.
    pub reserved: [c_uint; 16],
}

const _: () = {
    assert!(size_of::<ResourceDesc>() == 144);
    assert!(size_of::<DriverResourceDesc>() == 144);
    assert!(size_of::<TextureDesc>() == 72);
    assert!(size_of::<DriverTextureDesc>() == 104);
    assert!(size_of::<ResourceViewDesc>() == 112);
};
