//! Allocating and freeing device memory.

use super::graph_memory;
use crate::device::{Gpu, node};
use crate::error::{Error, Result};
use crate::memory::heap::AllocationUse;
use crate::memory::{advice, pinned, pool};

/// Allocates `size` bytes on a device; zero bytes are address zero.
pub fn allocate(gpu: &Gpu, size: usize, purpose: AllocationUse) -> Result<usize> {
    let state = crate::state::shared()?;
    if size == 0 {
        Ok(0)
    } else {
        crate::fail::allocation(gpu.index).inspect_err(|&error| {
            if error != Error::MEMORY_ALLOCATION {
                gpu.fail(error);
            }
        })?;
        gpu.heap().allocate(state, size, purpose)
    }
}

/// Frees device memory, on whichever device it is.
///
/// # Errors
/// `INVALID_VALUE` if no allocation starts there.
pub fn free(address: usize) -> Result {
    if pool::is_of_host(address) {
        pool::forget(address);
        return pinned::free(address);
    }
    let mut heap = owner(address)?.heap();
    match heap.find(address) {
        Some(found) if matches!(found.purpose, AllocationUse::Plain | AllocationUse::Managed) => {
            if found.purpose == AllocationUse::Managed {
                advice::forget(found.base, found.size);
            }
            // Before another thread may have the address.
            pool::forget(address);
            heap.free(crate::state::shared()?, address)
        }
        // The address is the graph's for ever.
        Some(found) if found.purpose == AllocationUse::Graph && found.base == address => {
            drop(heap);
            graph_memory::freed(address);
            Ok(())
        }
        _ => Err(Error::INVALID_VALUE),
    }
}

/// Allocates from a pool.
///
/// # Errors
/// `INVALID_VALUE` for no pool, `MEMORY_ALLOCATION`.
pub fn allocate_from(pool: usize, size: usize) -> Result<usize> {
    let ordinal = pool::reserve(pool, size)?;
    if ordinal == pool::HOST {
        let address = pinned::allocate(size, 0)?;
        pool::note(pool, address, size);
        return Ok(address);
    }
    let gpu = node()?.gpu(ordinal as i32)?;
    gpu.enter_for_pool()?;
    let address = allocate(gpu, size, AllocationUse::Plain)?;
    if address != 0 {
        pool::note(pool, address, size);
    }
    Ok(address)
}

/// Frees memory that softgpu itself allocated for the program.
///
/// # Errors
/// As [`free`].
pub fn take_back(address: usize) -> Result {
    owner(address)?.heap().free(crate::state::shared()?, address)
}

fn owner(address: usize) -> Result<&'static Gpu> {
    let mut gpus = node()?.gpus().iter();
    gpus.find(|gpu| gpu.heap().owns(address))
        .ok_or(Error::INVALID_VALUE)
}
