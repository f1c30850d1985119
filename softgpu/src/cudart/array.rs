//! Arrays, and copies from and to them. Kernels reach them through texture and surface objects.

use std::ffi::{c_int, c_uint, c_void};

use mgb_abi::array::{ArrayMemoryRequirements, ChannelFormatDesc};
use mgb_abi::copy3d::CudaExtent;

use super::copy::{later, now};
use super::{put, runtime};
use crate::device::{current, node};
use crate::driver;
use crate::driver_front;
use crate::error::{Error, Result};
use crate::memory::array;
use crate::memory::region::{Side, Size};
use crate::transfer::MemoryCopy;

fn create(array: *mut usize, format: *const ChannelFormatDesc, extent: CudaExtent, flags: c_uint) -> Result {
    let gpu = current::active()?;
    // SAFETY: `format` is null or valid for reads: CUDA's contract of the functions that pass it.
    let format = *unsafe { format.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if array.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let Some(front) = driver_front::front() else {
        put!(array, driver::array::create(gpu, format, extent, flags)?);
        return Ok(());
    };
    // What is wrong with it has names of the runtime's own.
    array::plan(gpu.ordinal, format, extent, flags)?;
    let mut made = 0;
    front.cuArray3DCreate(&mut made, &driver::array::described(format, extent, flags)?)?;
    put!(array, made);
    Ok(())
}

/// A position in an array: its handle, bytes into a row, and rows.
type Position = (usize, usize, usize);

fn into(to: Position, from: *const c_void, pitch: usize, width: usize, height: usize) -> Result<MemoryCopy> {
    if width > pitch && height > 1 {
        return Err(Error::INVALID_PITCH_VALUE);
    }
    let size = Size::plane(width, height);
    let to = array::find(to.0)?.side([to.1, to.2, 0], &size)?;
    let from = Side::rows(from as usize, pitch);
    Ok(MemoryCopy { to, from, size })
}

fn out_of(to: *mut c_void, pitch: usize, from: Position, width: usize, height: usize) -> Result<MemoryCopy> {
    if width > pitch && height > 1 {
        return Err(Error::INVALID_PITCH_VALUE);
    }
    let size = Size::plane(width, height);
    let from = array::find(from.0)?.side([from.1, from.2, 0], &size)?;
    let to = Side::rows(to as usize, pitch);
    Ok(MemoryCopy { to, from, size })
}

fn between(to: Position, from: Position, size: Size) -> Result<MemoryCopy> {
    Ok(MemoryCopy {
        to: array::find(to.0)?.side([to.1, to.2, 0], &size)?,
        from: array::find(from.0)?.side([from.1, from.2, 0], &size)?,
        size,
    })
}

/// `count` bytes of an array, row after row, as one row.
fn run((handle, x, y): Position, count: usize) -> Result<usize> {
    array::find(handle)?.run(x, y, count)
}

runtime! {
    fn cudaMallocArray(
        array: *mut usize, format: *const ChannelFormatDesc, width: usize, height: usize, flags: c_uint,
    ) {
        create(array, format, CudaExtent { width, height, depth: 0 }, flags)
    }

    fn cudaMalloc3DArray(array: *mut usize, format: *const ChannelFormatDesc, extent: CudaExtent, flags: c_uint) {
        create(array, format, extent, flags)
    }

    fn cudaFreeArray(array: usize) {
        current::active()?;
        if array == 0 {
            return Ok(());
        }
        array::find(array).map_err(|_| Error::INVALID_VALUE)?;
        match driver_front::front() {
            Some(front) => front.cuArrayDestroy(array),
            None => driver::array::destroy(array),
        }
    }

    fn cudaArrayGetInfo(
        format: *mut ChannelFormatDesc, extent: *mut CudaExtent, flags: *mut c_uint, array: usize,
    ) {
        let array = array::find(array)?;
        if !format.is_null() {
            put!(format, array.format);
        }
        if !extent.is_null() {
            put!(extent, array.extent);
        }
        if !flags.is_null() {
            put!(flags, array.flags);
        }
        Ok(())
    }

    fn cudaGetChannelDesc(format: *mut ChannelFormatDesc, array: usize) {
        put!(format, array::find(array)?.format);
        Ok(())
    }

    fn cudaArrayGetMemoryRequirements(to: *mut ArrayMemoryRequirements, array: usize, device: c_int) {
        node()?.gpu(device)?;
        let size = array::find(array)?.bytes().next_multiple_of(512);
        put!(to, ArrayMemoryRequirements { size, alignment: 512, reserved: [0; 4] });
        Ok(())
    }

    fn cudaMemcpy2DToArray(
        to: usize, x: usize, y: usize, from: *const c_void, pitch: usize, width: usize, height: usize,
        kind: u32,
    ) {
        now(into((to, x, y), from, pitch, width, height)?, kind)
    }

    fn cudaMemcpy2DToArrayAsync(
        to: usize, x: usize, y: usize, from: *const c_void, pitch: usize, width: usize, height: usize,
        kind: u32, stream: usize,
    ) {
        later(into((to, x, y), from, pitch, width, height)?, kind, stream)
    }

    fn cudaMemcpy2DFromArray(
        to: *mut c_void, pitch: usize, from: usize, x: usize, y: usize, width: usize, height: usize,
        kind: u32,
    ) {
        now(out_of(to, pitch, (from, x, y), width, height)?, kind)
    }

    fn cudaMemcpy2DFromArrayAsync(
        to: *mut c_void, pitch: usize, from: usize, x: usize, y: usize, width: usize, height: usize,
        kind: u32, stream: usize,
    ) {
        later(out_of(to, pitch, (from, x, y), width, height)?, kind, stream)
    }

    fn cudaMemcpy2DArrayToArray(
        to: usize, to_x: usize, to_y: usize, from: usize, x: usize, y: usize, width: usize, height: usize,
        kind: u32,
    ) {
        now(between((to, to_x, to_y), (from, x, y), Size::plane(width, height))?, kind)
    }

    fn cudaMemcpyToArray(to: usize, x: usize, y: usize, from: *const c_void, count: usize, kind: u32) {
        now(MemoryCopy::bytes(run((to, x, y), count)?, from as usize, count), kind)
    }

    fn cudaMemcpyToArrayAsync(
        to: usize, x: usize, y: usize, from: *const c_void, count: usize, kind: u32, stream: usize,
    ) {
        later(MemoryCopy::bytes(run((to, x, y), count)?, from as usize, count), kind, stream)
    }

    fn cudaMemcpyFromArray(to: *mut c_void, from: usize, x: usize, y: usize, count: usize, kind: u32) {
        now(MemoryCopy::bytes(to as usize, run((from, x, y), count)?, count), kind)
    }

    fn cudaMemcpyFromArrayAsync(
        to: *mut c_void, from: usize, x: usize, y: usize, count: usize, kind: u32, stream: usize,
    ) {
        later(MemoryCopy::bytes(to as usize, run((from, x, y), count)?, count), kind, stream)
    }

    fn cudaMemcpyArrayToArray(
        to: usize, to_x: usize, to_y: usize, from: usize, x: usize, y: usize, count: usize, kind: u32,
    ) {
        now(MemoryCopy::bytes(run((to, to_x, to_y), count)?, run((from, x, y), count)?, count), kind)
    }
}
