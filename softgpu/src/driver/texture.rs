//! The driver's functions for texture objects.

use mgb_abi::array::ChannelFormatDesc;
use mgb_abi::texture::*;

use super::array::format_of;
use super::{current, driver};
use crate::address::{AddressKind, locate};
use crate::config::textures::{ALIGNMENT, LINEAR, PITCH, PITCH_ALIGNMENT, PITCHED};
use crate::device::Gpu;
use crate::entry::put;
use crate::error::{Error, Result, say_once};
use crate::memory::array;
use crate::texture::objects::{self, TextureObject};
use crate::texture::sample::{Sampler, Texture};
use crate::texture::texels::{ChannelKind, Format, Texels};

/// What is refused by name.
fn refused(what: &str) -> Error {
    say_once(&format!("the software GPU has no {what}"));
    Error::NOT_SUPPORTED
}

/// The array of a resource, as texels.
///
/// # Errors
/// `INVALID_HANDLE` for no array, `INVALID_VALUE` for one of another device.
pub fn of_array(gpu: &Gpu, handle: usize) -> Result<Texels> {
    let array = array::find(handle)?;
    if array.ordinal != gpu.ordinal {
        return Err(Error::INVALID_VALUE);
    }
    Ok(array.texels())
}

/// Elements of memory that a program has the address of.
fn of_memory(address: usize, format: ChannelFormatDesc, size: [usize; 2], pitch: usize) -> Result<Texels> {
    array::element(&format)?;
    let device_memory = !matches!(locate(address), AddressKind::Host | AddressKind::Nothing);
    if !device_memory || !address.is_multiple_of(ALIGNMENT) || size.contains(&0) {
        return Err(Error::INVALID_VALUE);
    }
    let [width, height] = size;
    Ok(Texels {
        base: address,
        format: Format::of(&format),
        size: [width, height, 1],
        pitch,
        slice: pitch * height,
        layered: false,
        cube: false,
    })
}

/// The texels of a resource, and whether they are linear memory.
fn texels(gpu: &Gpu, wanted: &DriverResourceDesc) -> Result<(Texels, bool)> {
    if wanted.flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: every member of the union is plain numbers, of which all bit patterns are values.
    unsafe {
        match wanted.kind {
            RESOURCE_ARRAY => Ok((of_array(gpu, wanted.resource.array)?, false)),
            RESOURCE_MIPMAPPED_ARRAY => Err(refused("mipmapped arrays: a texture has one level")),
            RESOURCE_LINEAR => {
                let linear = wanted.resource.linear;
                let format = format_of(linear.format, linear.channels)?;
                let elements = linear.bytes / array::element(&format)?;
                if elements > LINEAR {
                    return Err(Error::INVALID_VALUE);
                }
                Ok((
                    of_memory(linear.address, format, [elements, 1], linear.bytes)?,
                    true,
                ))
            }
            RESOURCE_PITCH_2D => {
                let DriverPitch2D {
                    address,
                    format,
                    channels,
                    width,
                    height,
                    pitch,
                } = wanted.resource.pitched;
                let format = format_of(format, channels)?;
                let holds = width <= PITCHED[0] && width * array::element(&format)? <= pitch;
                let aligned = pitch.is_multiple_of(PITCH_ALIGNMENT);
                if !holds || !aligned || height > PITCHED[1] || pitch > PITCH {
                    return Err(Error::INVALID_VALUE);
                }
                Ok((of_memory(address, format, [width, height], pitch)?, false))
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }
}

/// The elements of a view's format, in the order of CUDA's numbers.
fn format_of_view(number: u32) -> Option<Format> {
    if number == VIEW_FORMAT_NONE || number > VIEW_FORMAT_FLOAT4 {
        return None;
    }
    const KINDS: [(ChannelKind, usize); 8] = [
        (ChannelKind::Unsigned, 8),
        (ChannelKind::Signed, 8),
        (ChannelKind::Unsigned, 16),
        (ChannelKind::Signed, 16),
        (ChannelKind::Unsigned, 32),
        (ChannelKind::Signed, 32),
        (ChannelKind::Float, 16),
        (ChannelKind::Float, 32),
    ];
    let at = number as usize - 1;
    let (kind, bits) = KINDS[at / 3];
    Some(Format {
        kind,
        bits,
        channels: [1, 2, 4][at % 3],
    })
}

/// The part of an array that a view shows, and as what.
fn viewed(mut texels: Texels, view: &ResourceViewDesc) -> Result<Texels> {
    if view.format > VIEW_FORMAT_FLOAT4 {
        return Err(refused("views of compressed blocks"));
    }
    if let Some(format) = format_of_view(view.format) {
        if format.bytes() != texels.format.bytes() {
            return Err(Error::INVALID_VALUE);
        }
        texels.format = format;
    }
    let [width, height, depth] = texels.size;
    let same = |wanted: usize, size: usize| wanted == size || (wanted == 0 && size == 1);
    let levels = view.first_level == 0 && view.last_level == 0;
    // The depth is all layers' of the array, whichever of them the view has.
    if !levels || !same(view.width, width) || !same(view.height, height) || !same(view.depth, depth) {
        return Err(Error::INVALID_VALUE);
    }
    if texels.layered {
        let (first, last) = (view.first_layer as usize, view.last_layer as usize);
        let faces = if texels.cube { 6 } else { 1 };
        if first > last || last >= depth || first % faces != 0 || (last + 1) % faces != 0 {
            return Err(Error::INVALID_VALUE);
        }
        texels.base += first * texels.slice;
        texels.size[2] = last - first + 1;
    }
    Ok(texels)
}

/// Makes a texture object of a device; returns its handle.
///
/// # Errors
/// `INVALID_VALUE` for what CUDA does not allow, `INVALID_HANDLE` for no array, `NOT_SUPPORTED` after a line
/// on stderr that names what the software GPU lacks.
pub fn create(
    gpu: &Gpu,
    resource: &DriverResourceDesc,
    settings: &DriverTextureDesc,
    view: Option<&ResourceViewDesc>,
) -> Result<u64> {
    let (mut texels, is_linear) = texels(gpu, resource)?;
    if let Some(view) = view {
        if resource.kind != RESOURCE_ARRAY {
            return Err(Error::INVALID_VALUE);
        }
        texels = viewed(texels, view)?;
    }
    let known = settings.address.iter().all(|&mode| mode <= ADDRESS_BORDER)
        && settings.filter <= FILTER_LINEAR
        && settings.mipmap_filter <= FILTER_LINEAR;
    let sampler = Sampler::of(settings, texels.format);
    // Linear memory is read by number alone.
    let mixes_integers = settings.filter == FILTER_LINEAR && !sampler.gives_floats(texels.format);
    if !known || (mixes_integers && !is_linear) {
        return Err(Error::INVALID_VALUE);
    }
    let texture = Texture {
        texels,
        sampler,
        is_linear,
    };
    let object = TextureObject {
        texture,
        resource: *resource,
        settings: *settings,
        view: view.copied(),
    };
    Ok(objects::add_texture(gpu.ordinal, object))
}

/// Ends a texture object. Kernels that were launched before may still read through it.
///
/// # Errors
/// `INVALID_VALUE` if there is none of this handle.
pub fn destroy(handle: u64) -> Result {
    objects::remove_texture(handle)
        .then_some(())
        .ok_or(Error::INVALID_VALUE)
}

/// The texture object of a handle.
///
/// # Errors
/// `INVALID_VALUE` if there is none.
pub fn find(handle: u64) -> Result<std::sync::Arc<TextureObject>> {
    objects::texture(handle).ok_or(Error::INVALID_VALUE)
}

driver! {
    fn cuTexObjectCreate(
        object: *mut u64, resource: *const DriverResourceDesc, settings: *const DriverTextureDesc,
        view: *const ResourceViewDesc,
    ) {
        let gpu = current()?;
        // SAFETY: null or valid for reads: CUDA's contract of the function.
        let (resource, settings, view) = unsafe { (resource.as_ref(), settings.as_ref(), view.as_ref()) };
        let (Some(resource), Some(settings), false) = (resource, settings, object.is_null()) else {
            return Err(Error::INVALID_VALUE);
        };
        put!(object, create(gpu, resource, settings, view)?);
        Ok(())
    }

    fn cuTexObjectDestroy(object: u64) {
        current()?;
        destroy(object)
    }

    fn cuTexObjectGetResourceDesc(to: *mut DriverResourceDesc, object: u64) {
        put!(to, find(object)?.resource);
        Ok(())
    }

    fn cuTexObjectGetTextureDesc(to: *mut DriverTextureDesc, object: u64) {
        put!(to, find(object)?.settings);
        Ok(())
    }

    fn cuTexObjectGetResourceViewDesc(to: *mut ResourceViewDesc, object: u64) {
        put!(to, find(object)?.view.unwrap_or_default());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_have_the_formats_of_their_numbers() {
        let of = |number| format_of_view(number).map(|format| (format.kind, format.bits, format.channels));
        assert_eq!(of(0), None);
        assert_eq!(of(0x01), Some((ChannelKind::Unsigned, 8, 1)));
        assert_eq!(of(0x09), Some((ChannelKind::Unsigned, 16, 4)));
        assert_eq!(of(0x0b), Some((ChannelKind::Signed, 16, 2)));
        assert_eq!(of(0x12), Some((ChannelKind::Signed, 32, 4)));
        assert_eq!(of(0x13), Some((ChannelKind::Float, 16, 1)));
        assert_eq!(of(VIEW_FORMAT_FLOAT4), Some((ChannelKind::Float, 32, 4)));
        assert_eq!(of(VIEW_FORMAT_FLOAT4 + 1), None);
    }
}
