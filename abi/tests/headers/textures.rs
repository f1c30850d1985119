//! Textures and surfaces.

use std::mem::offset_of;

use mgb_abi::error::Code;
use mgb_abi::texture::*;

use super::Checks;

/// Sizes, offsets and constants.
pub fn structures(c: &mut Checks) {
    let resource = offset_of!(ResourceDesc, resource);
    c.size("struct cudaResourceDesc", size_of::<ResourceDesc>());
    let of = |member: usize| resource + member;
    for (member, at) in [
        ("res.linear.desc", of(offset_of!(Linear, format))),
        ("res.linear.sizeInBytes", of(offset_of!(Linear, bytes))),
        ("res.pitch2D.width", of(offset_of!(Pitch2D, width))),
        ("res.pitch2D.pitchInBytes", of(offset_of!(Pitch2D, pitch))),
        ("flags", offset_of!(ResourceDesc, flags)),
    ] {
        c.offset("struct cudaResourceDesc", member, at);
    }
    c.size("CUDA_RESOURCE_DESC", size_of::<DriverResourceDesc>());
    for (member, at) in [
        ("res.linear.numChannels", of(offset_of!(DriverLinear, channels))),
        ("res.linear.sizeInBytes", of(offset_of!(DriverLinear, bytes))),
        ("res.pitch2D.width", of(offset_of!(DriverPitch2D, width))),
        ("res.pitch2D.pitchInBytes", of(offset_of!(DriverPitch2D, pitch))),
        ("flags", offset_of!(DriverResourceDesc, flags)),
    ] {
        c.offset("CUDA_RESOURCE_DESC", member, at);
    }
    c.size("struct cudaTextureDesc", size_of::<TextureDesc>());
    for (member, at) in [
        ("borderColor", offset_of!(TextureDesc, border)),
        ("normalizedCoords", offset_of!(TextureDesc, normalized)),
        ("maxMipmapLevelClamp", offset_of!(TextureDesc, mipmap_most)),
        ("seamlessCubemap", offset_of!(TextureDesc, seamless)),
    ] {
        c.offset("struct cudaTextureDesc", member, at);
    }
    c.size("CUDA_TEXTURE_DESC", size_of::<DriverTextureDesc>());
    let border = offset_of!(DriverTextureDesc, border);
    c.offset("CUDA_TEXTURE_DESC", "borderColor", border);
    for name in ["struct cudaResourceViewDesc", "CUDA_RESOURCE_VIEW_DESC"] {
        c.size(name, size_of::<ResourceViewDesc>());
        c.offset(name, "lastLayer", offset_of!(ResourceViewDesc, last_layer));
    }
    for (name, value) in [
        ("cudaResourceTypeLinear", RESOURCE_LINEAR),
        ("cudaResourceTypePitch2D", RESOURCE_PITCH_2D),
        ("CU_RESOURCE_TYPE_MIPMAPPED_ARRAY", RESOURCE_MIPMAPPED_ARRAY),
        ("cudaAddressModeWrap", ADDRESS_WRAP),
        ("cudaAddressModeMirror", ADDRESS_MIRROR),
        ("CU_TR_ADDRESS_MODE_BORDER", ADDRESS_BORDER),
        ("cudaFilterModeLinear", FILTER_LINEAR),
        ("cudaReadModeNormalizedFloat", READ_NORMALIZED_FLOAT),
        ("cudaBoundaryModeClamp", BOUNDARY_CLAMP),
        ("cudaBoundaryModeTrap", BOUNDARY_TRAP),
        ("CU_TRSF_READ_AS_INTEGER", FLAG_READ_AS_INTEGER),
        ("CU_TRSF_NORMALIZED_COORDINATES", FLAG_NORMALIZED_COORDINATES),
        ("CU_TRSF_SRGB", FLAG_SRGB),
        (
            "CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION",
            FLAG_DISABLE_TRILINEAR_OPTIMIZATION,
        ),
        ("CU_TRSF_SEAMLESS_CUBEMAP", FLAG_SEAMLESS_CUBEMAP),
        ("cudaResViewFormatFloat4", VIEW_FORMAT_FLOAT4),
        ("cudaErrorInvalidTexture", Code::INVALID_TEXTURE.0),
        ("cudaErrorInvalidFilterSetting", Code::INVALID_FILTER_SETTING.0),
    ] {
        c.equal(name, value);
    }
}
