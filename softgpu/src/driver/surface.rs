//! The driver's functions for surface objects.

use mgb_abi::array::ARRAY_SURFACE_LOAD_STORE;
use mgb_abi::texture::*;

use super::texture::of_array;
use super::{current, driver};
use crate::device::Gpu;
use crate::entry::put;
use crate::error::{Error, Result};
use crate::memory::array;
use crate::texture::objects::{self, SurfaceObject};
use crate::texture::surface::Surface;
use crate::texture::texels::Texels;

/// Makes a surface object of a device; returns its handle.
///
/// # Errors
/// `INVALID_HANDLE` for no array, `INVALID_VALUE` for anything but an array made for surfaces.
pub fn create(gpu: &Gpu, resource: &DriverResourceDesc) -> Result<u64> {
    if resource.kind != RESOURCE_ARRAY || resource.flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the kind says that the union holds an array's handle.
    let handle = unsafe { resource.resource.array };
    // Instructions name a cube's faces as layers.
    let texels = Texels {
        cube: false,
        ..of_array(gpu, handle)?
    };
    if array::find(handle)?.flags & ARRAY_SURFACE_LOAD_STORE == 0 {
        return Err(Error::INVALID_VALUE);
    }
    let object = SurfaceObject {
        surface: Surface { texels },
        resource: *resource,
    };
    Ok(objects::add_surface(gpu.ordinal, object))
}

/// Ends a surface object. Kernels that were launched before may still use it.
///
/// # Errors
/// `INVALID_VALUE` if there is none of this handle.
pub fn destroy(handle: u64) -> Result {
    objects::remove_surface(handle)
        .then_some(())
        .ok_or(Error::INVALID_VALUE)
}

/// What a surface object was made of.
///
/// # Errors
/// `INVALID_VALUE` if there is none of this handle.
pub fn resource(handle: u64) -> Result<DriverResourceDesc> {
    let found = objects::surface(handle).ok_or(Error::INVALID_VALUE)?;
    Ok(found.resource)
}

driver! {
    fn cuSurfObjectCreate(object: *mut u64, resource: *const DriverResourceDesc) {
        let gpu = current()?;
        // SAFETY: null or valid for reads: CUDA's contract of the function.
        let resource = unsafe { resource.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        if object.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(object, create(gpu, resource)?);
        Ok(())
    }

    fn cuSurfObjectDestroy(object: u64) {
        current()?;
        destroy(object)
    }

    fn cuSurfObjectGetResourceDesc(to: *mut DriverResourceDesc, object: u64) {
        put!(to, resource(object)?);
        Ok(())
    }
}
