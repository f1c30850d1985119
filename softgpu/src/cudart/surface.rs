//! The runtime's functions for surface objects.

use mgb_abi::texture::ResourceDesc;

use super::texture::{resource_to_driver, resource_to_runtime};
use super::{put, runtime};
use crate::device::current;
use crate::driver::surface;
use crate::driver_front;
use crate::error::Error;

runtime! {
    fn cudaCreateSurfaceObject(object: *mut u64, resource: *const ResourceDesc) {
        let gpu = current::active()?;
        // SAFETY: null or valid for reads: CUDA's contract of the function.
        let resource = unsafe { resource.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        if object.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let resource = resource_to_driver(resource)?;
        let Some(front) = driver_front::front() else {
            put!(object, surface::create(gpu, &resource)?);
            return Ok(());
        };
        let mut made = 0;
        front.cuSurfObjectCreate(&mut made, &resource)?;
        put!(object, made);
        Ok(())
    }

    fn cudaDestroySurfaceObject(object: u64) {
        current::active()?;
        match driver_front::front() {
            Some(front) => front.cuSurfObjectDestroy(object),
            None => surface::destroy(object),
        }
    }

    fn cudaGetSurfaceObjectResourceDesc(to: *mut ResourceDesc, object: u64) {
        put!(to, resource_to_runtime(&surface::resource(object)?)?);
        Ok(())
    }
}
