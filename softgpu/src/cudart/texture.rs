//! The runtime's functions for texture objects.

use mgb_abi::array::ChannelFormatDesc;
use mgb_abi::copy3d::CudaExtent;
use mgb_abi::texture::*;

use super::{put, runtime};
use crate::device::{Gpu, current};
use crate::driver::array::{described, format_of};
use crate::driver::texture;
use crate::driver_front;
use crate::error::{Error, Result};
use crate::memory::array;

/// The driver's words for a format of elements: its number and the channels.
fn to_driver(format: ChannelFormatDesc) -> Result<(u32, u32)> {
    array::element(&format)?;
    let extent = CudaExtent {
        width: 1,
        height: 0,
        depth: 0,
    };
    let described = described(format, extent, 0)?;
    Ok((described.format, described.channels))
}

/// The driver's description of a resource, and the format of its elements.
///
/// # Errors
/// `INVALID_CHANNEL_DESCRIPTOR` for a format that no device has; what is wrong with an array's handle.
pub fn resource_to_driver(wanted: &ResourceDesc) -> Result<DriverResourceDesc> {
    // SAFETY: every member of the union is plain numbers, of which all bit patterns are values.
    let resource = unsafe {
        match wanted.kind {
            RESOURCE_LINEAR => {
                let Linear {
                    address,
                    format,
                    bytes,
                } = wanted.resource.linear;
                let (format, channels) = to_driver(format)?;
                let linear = DriverLinear {
                    address,
                    format,
                    channels,
                    bytes,
                };
                DriverResource { linear }
            }
            RESOURCE_PITCH_2D => {
                let Pitch2D {
                    address,
                    format,
                    width,
                    height,
                    pitch,
                } = wanted.resource.pitched;
                let (format, channels) = to_driver(format)?;
                let pitched = DriverPitch2D {
                    address,
                    format,
                    channels,
                    width,
                    height,
                    pitch,
                };
                DriverResource { pitched }
            }
            _ => DriverResource {
                reserved: wanted.resource.reserved,
            },
        }
    };
    Ok(DriverResourceDesc {
        kind: wanted.kind,
        resource,
        flags: wanted.flags,
    })
}

/// The runtime's description of a resource.
///
/// # Errors
/// None for a description that an object was made of.
pub fn resource_to_runtime(found: &DriverResourceDesc) -> Result<ResourceDesc> {
    // SAFETY: every member of the union is plain numbers, of which all bit patterns are values.
    let resource = unsafe {
        match found.kind {
            RESOURCE_LINEAR => {
                let of = found.resource.linear;
                let linear = Linear {
                    address: of.address,
                    format: format_of(of.format, of.channels)?,
                    bytes: of.bytes,
                };
                Resource { linear }
            }
            RESOURCE_PITCH_2D => {
                let of = found.resource.pitched;
                let pitched = Pitch2D {
                    address: of.address,
                    format: format_of(of.format, of.channels)?,
                    width: of.width,
                    height: of.height,
                    pitch: of.pitch,
                };
                Resource { pitched }
            }
            _ => Resource {
                reserved: found.resource.reserved,
            },
        }
    };
    Ok(ResourceDesc {
        kind: found.kind,
        resource,
        flags: found.flags,
    })
}

/// A member of a description that is a flag in the driver's.
type Member = fn(&mut TextureDesc) -> &mut i32;

const FLAGS: [(u32, Member); 4] = [
    (FLAG_NORMALIZED_COORDINATES, |all| &mut all.normalized),
    (FLAG_SRGB, |all| &mut all.srgb),
    (FLAG_DISABLE_TRILINEAR_OPTIMIZATION, |all| {
        &mut all.exact_trilinear
    }),
    (FLAG_SEAMLESS_CUBEMAP, |all| &mut all.seamless),
];

fn settings_to_driver(wanted: &TextureDesc) -> Result<DriverTextureDesc> {
    let mut flags = match wanted.read {
        READ_ELEMENT_TYPE => FLAG_READ_AS_INTEGER,
        READ_NORMALIZED_FLOAT => 0,
        _ => return Err(Error::INVALID_VALUE),
    };
    let mut copy = *wanted;
    for (flag, member) in FLAGS {
        if *member(&mut copy) != 0 {
            flags |= flag;
        }
    }
    Ok(DriverTextureDesc {
        address: wanted.address,
        filter: wanted.filter,
        flags,
        anisotropy: wanted.anisotropy,
        mipmap_filter: wanted.mipmap_filter,
        mipmap_bias: wanted.mipmap_bias,
        mipmap_least: wanted.mipmap_least,
        mipmap_most: wanted.mipmap_most,
        border: wanted.border,
        reserved: [0; 12],
    })
}

fn settings_to_runtime(found: &DriverTextureDesc) -> TextureDesc {
    let mut settings = TextureDesc {
        address: found.address,
        filter: found.filter,
        read: match found.flags & FLAG_READ_AS_INTEGER {
            0 => READ_NORMALIZED_FLOAT,
            _ => READ_ELEMENT_TYPE,
        },
        border: found.border,
        anisotropy: found.anisotropy,
        mipmap_filter: found.mipmap_filter,
        mipmap_bias: found.mipmap_bias,
        mipmap_least: found.mipmap_least,
        mipmap_most: found.mipmap_most,
        ..TextureDesc::default()
    };
    for (flag, member) in FLAGS {
        *member(&mut settings) = i32::from(found.flags & flag != 0);
    }
    settings
}

/// Only floats can be mixed; the runtime has a code of its own for that.
fn check_filter(
    resource: &DriverResourceDesc,
    settings: &TextureDesc,
    view: Option<&ResourceViewDesc>,
) -> Result {
    if settings.filter != FILTER_LINEAR || view.is_some_and(|view| view.format != VIEW_FORMAT_NONE) {
        return Ok(());
    }
    // SAFETY: the kind says which member the union holds.
    let format = unsafe {
        match resource.kind {
            RESOURCE_ARRAY => array::find(resource.resource.array)?.format,
            RESOURCE_PITCH_2D => {
                let pitched = resource.resource.pitched;
                format_of(pitched.format, pitched.channels)?
            }
            _ => return Ok(()),
        }
    };
    let promoted = settings.read == READ_NORMALIZED_FLOAT && format.x < 32;
    if format.f == 2 || promoted {
        Ok(())
    } else {
        Err(Error::INVALID_FILTER_SETTING)
    }
}

fn create(
    gpu: &Gpu,
    object: *mut u64,
    resource: &ResourceDesc,
    settings: &TextureDesc,
    view: *const ResourceViewDesc,
) -> Result {
    // SAFETY: null or valid for reads: CUDA's contract of `cudaCreateTextureObject`.
    let viewed = unsafe { view.as_ref() };
    let resource = resource_to_driver(resource)?;
    check_filter(&resource, settings, viewed)?;
    let settings = settings_to_driver(settings)?;
    let Some(front) = driver_front::front() else {
        put!(object, texture::create(gpu, &resource, &settings, viewed)?);
        return Ok(());
    };
    let mut made = 0;
    front.cuTexObjectCreate(&mut made, &resource, &settings, view)?;
    put!(object, made);
    Ok(())
}

runtime! {
    fn cudaCreateTextureObject(
        object: *mut u64, resource: *const ResourceDesc, settings: *const TextureDesc,
        view: *const ResourceViewDesc,
    ) {
        let gpu = current::active()?;
        // SAFETY: null or valid for reads: CUDA's contract of the function.
        let (resource, settings) = unsafe { (resource.as_ref(), settings.as_ref()) };
        let (Some(resource), Some(settings), false) = (resource, settings, object.is_null()) else {
            return Err(Error::INVALID_VALUE);
        };
        create(gpu, object, resource, settings, view)
    }

    fn cudaDestroyTextureObject(object: u64) {
        current::active()?;
        match driver_front::front() {
            Some(front) => front.cuTexObjectDestroy(object),
            None => texture::destroy(object),
        }
    }

    fn cudaGetTextureObjectResourceDesc(to: *mut ResourceDesc, object: u64) {
        put!(to, resource_to_runtime(&texture::find(object)?.resource)?);
        Ok(())
    }

    fn cudaGetTextureObjectTextureDesc(to: *mut TextureDesc, object: u64) {
        put!(to, settings_to_runtime(&texture::find(object)?.settings));
        Ok(())
    }

    fn cudaGetTextureObjectResourceViewDesc(to: *mut ResourceViewDesc, object: u64) {
        // A GPU's driver answers for an object without a view as well.
        put!(to, texture::find(object)?.view.unwrap_or_default());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_the_same_in_both_interfaces() {
        let wanted = TextureDesc {
            address: [0, 1, 2],
            filter: FILTER_LINEAR,
            read: READ_NORMALIZED_FLOAT,
            srgb: 1,
            border: [1.0, 2.0, 3.0, 4.0],
            normalized: 1,
            anisotropy: 5,
            mipmap_filter: 1,
            mipmap_bias: 0.5,
            mipmap_least: 1.5,
            mipmap_most: 2.5,
            exact_trilinear: 0,
            seamless: 1,
        };
        for wanted in [wanted, TextureDesc::default()] {
            let driver = settings_to_driver(&wanted).unwrap();
            assert_eq!(settings_to_runtime(&driver), wanted);
        }
        let unknown = TextureDesc { read: 2, ..wanted };
        assert_eq!(settings_to_driver(&unknown), Err(Error::INVALID_VALUE));
    }
}
