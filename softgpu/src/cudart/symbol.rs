//! Device variables by their host shadows.

use std::ffi::c_void;

use mgb_abi::copy::{DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE};

use super::{dispatch, put, runtime};
use crate::device::{Gpu, current, resolve};
use crate::error::{Error, Result};
use crate::exec::registry;
use crate::kernel::variables;
use crate::transfer::MemoryCopy;

/// The address of `count` bytes of a variable from `offset`.
///
/// # Errors
/// `INVALID_SYMBOL`, `INVALID_VALUE` past the variable's end.
pub fn part(gpu: &Gpu, symbol: *const c_void, offset: usize, count: usize) -> Result<usize> {
    let (image, variable) = registry::variable(symbol as usize)?;
    if offset
        .checked_add(count)
        .is_none_or(|end| end as u64 > variable.size)
    {
        return Err(Error::INVALID_VALUE);
    }
    Ok(variables::address(gpu, image, variable)? + offset)
}

/// A copy to a variable comes from the host or a device, never from a variable's reader's side.
fn kind_to(kind: u32) -> Result {
    if matches!(kind, HOST_TO_DEVICE | DEVICE_TO_DEVICE | DEFAULT) {
        Ok(())
    } else {
        Err(Error::INVALID_MEMCPY_DIRECTION)
    }
}

fn kind_from(kind: u32) -> Result {
    if matches!(kind, DEVICE_TO_HOST | DEVICE_TO_DEVICE | DEFAULT) {
        Ok(())
    } else {
        Err(Error::INVALID_MEMCPY_DIRECTION)
    }
}

runtime! {
    fn cudaGetSymbolAddress(pointer: *mut *mut c_void, symbol: *const c_void) {
        let gpu = current::active()?;
        put!(pointer, part(gpu, symbol, 0, 0)? as *mut c_void);
        Ok(())
    }

    fn cudaGetSymbolSize(size: *mut usize, symbol: *const c_void) {
        current::active()?;
        put!(size, registry::variable(symbol as usize)?.1.size as usize);
        Ok(())
    }

    fn cudaMemcpyToSymbol(
        symbol: *const c_void, from: *const c_void, count: usize, offset: usize, kind: u32,
    ) {
        let (gpu, stream) = resolve::stream(0)?;
        kind_to(kind)?;
        dispatch::copy(gpu, &stream, MemoryCopy::bytes(part(gpu, symbol, offset, count)?, from as usize, count), kind)
    }

    fn cudaMemcpyFromSymbol(to: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: u32) {
        let (gpu, stream) = resolve::stream(0)?;
        kind_from(kind)?;
        dispatch::copy(gpu, &stream, MemoryCopy::bytes(to as usize, part(gpu, symbol, offset, count)?, count), kind)
    }

    fn cudaMemcpyToSymbolAsync(
        symbol: *const c_void, from: *const c_void, count: usize, offset: usize, kind: u32, handle: usize,
    ) {
        let (gpu, stream) = resolve::stream(handle)?;
        kind_to(kind)?;
        dispatch::copy_async(gpu, &stream, handle, MemoryCopy::bytes(part(gpu, symbol, offset, count)?, from as usize, count), kind)
    }

    fn cudaMemcpyFromSymbolAsync(
        to: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: u32, handle: usize,
    ) {
        let (gpu, stream) = resolve::stream(handle)?;
        kind_from(kind)?;
        dispatch::copy_async(gpu, &stream, handle, MemoryCopy::bytes(to as usize, part(gpu, symbol, offset, count)?, count), kind)
    }
}
