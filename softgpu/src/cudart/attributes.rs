//! What a kernel needs, and how many of its blocks fit.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use mgb_abi::launch::{FUNC_MAX_DYNAMIC_SHARED_MEMORY_SIZE, FuncAttributes};

use super::{put, runtime};
use crate::device::current;
use crate::error::{Error, Result};
use crate::exec::registry;
use crate::kernel::launch::{most_threads, registers, resident};

/// Sets an attribute of a kernel.
///
/// # Errors
/// `INVALID_VALUE` for unknown attributes and for more shared memory than a block can have.
pub fn set(stub: usize, attribute: u32, value: c_int) -> Result {
    let profile = current::active()?.profile();
    let function = registry::function(stub)?;
    match attribute {
        FUNC_MAX_DYNAMIC_SHARED_MEMORY_SIZE => {
            let fixed = function.code.map_or(0, |code| code.kernel.static_shared);
            if value < 0 || value as u32 + fixed > profile.shared_per_block_optin {
                return Err(Error::INVALID_VALUE);
            }
            function.dynamic_shared.store(value, Ordering::Relaxed);
            Ok(())
        }
        // Carve-out and clusters: hints, and what a launch would say.
        9..=15 => Ok(()),
        _ => Err(Error::INVALID_VALUE),
    }
}

fn blocks(stub: *const c_void, threads: c_int, shared: usize) -> Result<u32> {
    let profile = current::active()?.profile();
    let function = registry::function(stub as usize)?;
    function.runnable()?;
    let threads = u32::try_from(threads)
        .ok()
        .filter(|&threads| threads > 0)
        .ok_or(Error::INVALID_VALUE)?;
    if shared > function.dynamic_shared_limit(profile) as usize {
        return Ok(0);
    }
    Ok(resident(profile, &function, threads, shared as u64))
}

runtime! {
    fn cudaFuncGetAttributes(attributes: *mut FuncAttributes, stub: *const c_void) {
        let profile = current::active()?.profile();
        let function = registry::function(stub as usize)?;
        let (code, _) = function.runnable()?;
        put!(attributes, FuncAttributes {
            shared_size_bytes: code.kernel.static_shared as usize,
            local_size_bytes: code.kernel.local_bytes as usize,
            max_threads_per_block: most_threads(profile, code.kernel) as c_int,
            num_regs: registers(profile, code.kernel) as c_int,
            ptx_version: 90,
            binary_version: 10 * profile.major + profile.minor,
            max_dynamic_shared_size_bytes: function.dynamic_shared_limit(profile) as c_int,
            preferred_shmem_carveout: -1,
            ..FuncAttributes::default()
        });
        Ok(())
    }

    fn cudaFuncSetAttribute(stub: *const c_void, attribute: u32, value: c_int) {
        set(stub as usize, attribute, value)
    }

    fn cudaFuncSetCacheConfig(stub: *const c_void, _config: c_int) {
        registry::function(stub as usize).map(drop)
    }

    fn cudaFuncSetSharedMemConfig(stub: *const c_void, _config: c_int) {
        registry::function(stub as usize).map(drop)
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        count: *mut c_int, stub: *const c_void, threads: c_int, shared: usize,
    ) {
        put!(count, blocks(stub, threads, shared)? as c_int);
        Ok(())
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: *mut c_int, stub: *const c_void, threads: c_int, shared: usize, _flags: c_uint,
    ) {
        put!(count, blocks(stub, threads, shared)? as c_int);
        Ok(())
    }

    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize, stub: *const c_void, wanted: c_int, threads: c_int,
    ) {
        let wanted = u32::try_from(wanted).map_err(|_| Error::INVALID_VALUE)?;
        if wanted == 0 || blocks(stub, threads, 0)? < wanted {
            return Err(Error::INVALID_VALUE);
        }
        let fixed = registry::function(stub as usize)?.code.map_or(0, |code| code.kernel.static_shared);
        let profile = current::active()?.profile();
        let each = profile.shared_per_multiprocessor / wanted / profile.shared_unit * profile.shared_unit;
        let each = each.saturating_sub(profile.shared_reserved);
        put!(bytes, each.min(profile.shared_per_block_optin).saturating_sub(fixed) as usize);
        Ok(())
    }
}
