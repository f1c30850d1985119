//! Allocation in stream order, and the pools it takes from. Memory is there at once and goes in the stream's turn,
//! which is one of the orders that CUDA allows.

use std::ffi::{c_int, c_void};

use super::{put, runtime};
use crate::device::{Gpu, current, node};
use crate::driver::vmm::{AccessDesc, Location};
use crate::error::{Error, Result};
use crate::graph::{GraphMemory, Kind, capture};
use crate::memory::{self, Place, locate, pool};
use crate::stream::handle;

/// `cudaMemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PoolProps {
    kind: c_int,
    handle_types: c_int,
    location: Location,
    windows: *mut c_void,
    most: usize,
    usage: u16,
    reserved: [u8; 54],
}

/// `cudaMemAllocationTypePinned`.
const PINNED: c_int = 1;
/// `cudaMemLocationTypeDevice`.
const DEVICE: c_int = 1;
/// `cudaMemAccessFlagsProtReadWrite`.
const READ_WRITE: c_int = 3;

impl PoolProps {
    /// Those of a device's default pool.
    pub fn of(ordinal: usize) -> PoolProps {
        PoolProps {
            kind: PINNED,
            handle_types: 0,
            location: Location {
                kind: DEVICE,
                id: ordinal as c_int,
            },
            windows: std::ptr::null_mut(),
            most: 0,
            usage: 0,
            reserved: [0; 54],
        }
    }

    /// The device it asks for.
    ///
    /// # Errors
    /// `INVALID_VALUE` for other memory than a device's, `NOT_SUPPORTED` for memory to share.
    pub fn gpu(&self) -> Result<&'static Gpu> {
        if self.kind != PINNED || self.location.kind != DEVICE {
            return Err(Error::INVALID_VALUE);
        }
        if self.handle_types != 0 {
            return Err(Error::NOT_SUPPORTED);
        }
        let gpu = node()?.gpu(self.location.id).map_err(|_| Error::INVALID_VALUE)?;
        gpu.enter()?;
        Ok(gpu)
    }
}

fn allocate(pointer: *mut *mut c_void, size: usize, pool: Option<usize>, stream: usize) -> Result {
    put!(pointer, std::ptr::null_mut());
    let (gpu, stream) = handle::resolve(stream)?;
    let pool = pool.unwrap_or_else(|| pool::of(gpu.ordinal));
    let mut kept = 0;
    let captured = capture::keep(&stream, || {
        let gpu = node()?.gpu(pool::with(pool, |pool| pool.ordinal)? as c_int)?;
        let memory = GraphMemory::new(gpu, size)?;
        kept = memory.address;
        Ok(Kind::Alloc(memory))
    })?;
    let address = if captured {
        kept
    } else {
        pool::allocate(pool, size)?
    };
    put!(pointer, address as *mut c_void);
    Ok(())
}

/// The device that memory lies on, where it is one.
fn device_at(location: *const Location) -> Result<&'static Gpu> {
    // SAFETY: null or a place, as CUDA's contract has it.
    let location = unsafe { location.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if location.kind != DEVICE {
        return Err(Error::INVALID_VALUE);
    }
    node()?.gpu(location.id)
}

/// The device whose pool is meant.
fn owner(location: *const Location) -> Result<usize> {
    device_at(location)
        .map(|gpu| gpu.ordinal)
        .map_err(|_| Error::INVALID_VALUE)
}

runtime! {
    fn cudaMallocAsync(pointer: *mut *mut c_void, size: usize, stream: usize) {
        allocate(pointer, size, None, stream)
    }

    fn cudaMallocFromPoolAsync(pointer: *mut *mut c_void, size: usize, pool: usize, stream: usize) {
        allocate(pointer, size, Some(pool), stream)
    }

    fn cudaFreeAsync(pointer: *mut c_void, stream: usize) {
        let address = pointer as usize;
        let (gpu, stream) = handle::resolve(stream)?;
        if address == 0 {
            return Ok(());
        }
        if !matches!(locate(address), Place::Device { base, .. } if base == address) {
            return Err(Error::INVALID_VALUE);
        }
        if capture::keep(&stream, || Ok(Kind::Free(address)))? {
            return Ok(());
        }
        gpu.streams.submit(&stream, move |_| {
            if let Err(error) = memory::free(address) {
                gpu.fail(error);
            }
        });
        Ok(())
    }

    fn cudaDeviceGetDefaultMemPool(to: *mut usize, device: c_int) {
        put!(to, pool::default_of(owner(&Location { kind: DEVICE, id: device })?));
        Ok(())
    }

    fn cudaDeviceGetMemPool(to: *mut usize, device: c_int) {
        put!(to, pool::of(owner(&Location { kind: DEVICE, id: device })?));
        Ok(())
    }

    fn cudaDeviceSetMemPool(device: c_int, chosen: usize) {
        pool::choose(owner(&Location { kind: DEVICE, id: device })?, chosen)
    }

    fn cudaMemGetDefaultMemPool(to: *mut usize, location: *const Location, kind: c_int) {
        if kind != PINNED {
            return Err(Error::INVALID_VALUE);
        }
        put!(to, pool::default_of(owner(location)?));
        Ok(())
    }

    fn cudaMemGetMemPool(to: *mut usize, location: *const Location, kind: c_int) {
        if kind != PINNED {
            return Err(Error::INVALID_VALUE);
        }
        put!(to, pool::of(owner(location)?));
        Ok(())
    }

    fn cudaMemSetMemPool(location: *const Location, kind: c_int, chosen: usize) {
        if kind != PINNED {
            return Err(Error::INVALID_VALUE);
        }
        pool::choose(owner(location)?, chosen)
    }

    fn cudaMemPoolCreate(to: *mut usize, properties: *const PoolProps) {
        current::gpu()?;
        // SAFETY: null or the caller's properties.
        let properties = unsafe { properties.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        if to.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(to, pool::create(properties.gpu()?.ordinal, properties.most as u64));
        Ok(())
    }

    fn cudaMemPoolDestroy(handle: usize) {
        pool::destroy(handle)
    }

    fn cudaMemPoolTrimTo(handle: usize, _keep: usize) {
        // Nothing is kept that is not in use.
        pool::with(handle, |_| ())
    }

    fn cudaMemPoolSetAttribute(handle: usize, attribute: c_int, value: *const c_void) {
        if value.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: not null; switches are ints, the others 64-bit values.
        let number = unsafe {
            match attribute {
                1..=3 => u64::from(*value.cast::<c_int>() != 0),
                _ => *value.cast::<u64>(),
            }
        };
        pool::with(handle, |pool| match (attribute, number) {
            (1..=4, _) => {
                pool.settings[attribute as usize - 1] = number;
                Ok(())
            }
            // The highest figures can be reset, and nothing else.
            (6, 0) => {
                pool.reserved.high = pool.reserved.now;
                Ok(())
            }
            (8, 0) => {
                pool.used.high = pool.used.now;
                Ok(())
            }
            _ => Err(Error::INVALID_VALUE),
        })?
    }

    fn cudaMemPoolGetAttribute(handle: usize, attribute: c_int, value: *mut c_void) {
        let found = pool::with(handle, |pool| match attribute {
            1..=4 => Ok(pool.settings[attribute as usize - 1]),
            5 => Ok(pool.reserved.now),
            6 => Ok(pool.reserved.high),
            7 => Ok(pool.used.now),
            8 => Ok(pool.used.high),
            _ => Err(Error::INVALID_VALUE),
        })??;
        if attribute <= 3 {
            put!(value.cast::<c_int>(), found as c_int);
        } else {
            put!(value.cast::<u64>(), found);
        }
        Ok(())
    }

    fn cudaMemPoolSetAccess(handle: usize, list: *const AccessDesc, count: usize) {
        if list.is_null() && count > 0 {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the caller's array.
        for access in unsafe { crate::image::slice(list, count as u32) } {
            let ordinal = device_at(&access.location)?.ordinal;
            let on = match access.flags {
                0 => false,
                READ_WRITE => true,
                _ => return Err(Error::INVALID_VALUE),
            };
            pool::with(handle, |pool| match (on, pool.ordinal == ordinal) {
                // The device itself cannot be shut out.
                (false, true) => Err(Error::INVALID_VALUE),
                (false, false) => {
                    pool.readers &= !(1 << ordinal);
                    Ok(())
                }
                (true, _) => {
                    pool.readers |= 1 << ordinal;
                    Ok(())
                }
            })??;
        }
        pool::with(handle, |_| ())
    }

    fn cudaMemPoolGetAccess(flags: *mut c_int, handle: usize, location: *const Location) {
        let ordinal = device_at(location)?.ordinal;
        let on = pool::with(handle, |pool| pool.readers >> ordinal & 1 == 1)?;
        put!(flags, if on { READ_WRITE } else { 0 });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<PoolProps>(), 88);
        assert_eq!(std::mem::offset_of!(PoolProps, most), 24);
    }
}
