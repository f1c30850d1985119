//! Allocation in stream order. Memory is there at once and goes in the stream's turn, which is
//! one of the orders that CUDA allows.

use std::ffi::{c_int, c_void};

use super::{put, runtime};
use crate::device::{current, node};
use crate::error::Error;
use crate::memory::{self, Place, heap::Use, locate};
use crate::stream::handle;

/// The default pool of a device is named by its number, which is all that can be done with it.
fn pool_of(ordinal: usize) -> usize {
    0x1000 + ordinal
}

runtime! {
    fn cudaMallocAsync(pointer: *mut *mut c_void, size: usize, stream: usize) {
        put!(pointer, std::ptr::null_mut());
        let (gpu, _) = handle::resolve(stream)?;
        put!(pointer, memory::allocate(gpu, size, Use::Plain)? as *mut c_void);
        Ok(())
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
        gpu.streams.submit(&stream, move |_| {
            if let Err(error) = memory::free(address) {
                gpu.fail(error);
            }
        });
        Ok(())
    }

    fn cudaMallocFromPoolAsync(pointer: *mut *mut c_void, size: usize, pool: usize, stream: usize) {
        put!(pointer, std::ptr::null_mut());
        handle::resolve(stream)?;
        let gpu = node()?.gpus().iter().find(|gpu| pool_of(gpu.ordinal) == pool).ok_or(Error::INVALID_VALUE)?;
        gpu.enter()?;
        put!(pointer, memory::allocate(gpu, size, Use::Plain)? as *mut c_void);
        Ok(())
    }

    fn cudaDeviceGetDefaultMemPool(pool: *mut usize, device: c_int) {
        put!(pool, pool_of(node()?.gpu(device)?.ordinal));
        Ok(())
    }

    fn cudaDeviceGetMemPool(pool: *mut usize, device: c_int) {
        put!(pool, pool_of(node()?.gpu(device)?.ordinal));
        Ok(())
    }

    fn cudaMemPoolTrimTo(_pool: usize, _keep: usize) {
        current::active().map(drop)
    }
}
