//! Sharing device memory with other processes: `cudaIpcGetMemHandle` and `cudaIpcOpenMemHandle`.

use std::fs::File;

use crate::device::{Gpu, node};
use crate::error::{Error, Result};
use crate::ipc::Header;
use crate::memory::share::{MAGIC, MemoryHandle, OPEN, OpenedHandle};

/// A handle to an allocation of this process.
///
/// # Errors
/// `INVALID_VALUE` where none begins, `OPERATING_SYSTEM` for no file.
pub fn export(gpu: &Gpu, address: usize) -> Result<MemoryHandle> {
    // Kernels must not write while the memory moves into its file.
    gpu.streams.finish();
    let shared = gpu.heap().share(address)?;
    let file = File::from(shared.file);
    let handle = MemoryHandle {
        header: Header::new(MAGIC, &file, shared.number)?,
        index: gpu.index as u64,
        length: shared.length as u64,
        offset: shared.offset as u64,
        size: shared.size as u64,
        at: shared.at,
    };
    Ok(handle)
}

/// Opens another process's handle; the address in this one. Once more if it is open here already.
///
/// # Errors
/// `INVALID_HANDLE` for what is none or whose owner is gone, `INVALID_CONTEXT` for one of this process.
pub fn open(handle: &MemoryHandle) -> Result<usize> {
    handle.header.check(MAGIC)?;
    let mut all = OPEN.lock();
    if let Some(open) = all.iter_mut().find(|open| open.handle == *handle) {
        open.count += 1;
        return Ok(open.base + handle.offset as usize);
    }
    let gpu = node()?.gpus().iter().find(|gpu| gpu.index as u64 == handle.index);
    let gpu = gpu.ok_or(Error::INVALID_DEVICE)?;
    gpu.enter()?;
    let file = handle
        .header
        .open(handle.at.saturating_add(handle.length))?
        .into();
    let base = gpu.heap().adopt(&file, handle)?;
    all.push(OpenedHandle {
        handle: *handle,
        ordinal: gpu.ordinal,
        base,
        count: 1,
    });
    Ok(base + handle.offset as usize)
}

/// Closes what was opened at an address.
///
/// # Errors
/// `INVALID_VALUE` where nothing was.
pub fn close(address: usize) -> Result {
    let mut all = OPEN.lock();
    let at = all
        .iter()
        .position(|open| open.base + open.handle.offset as usize == address);
    let at = at.ok_or(Error::INVALID_VALUE)?;
    all[at].count -= 1;
    if all[at].count == 0 {
        let open = all.swap_remove(at);
        let gpu = node()?.gpu(open.ordinal as i32)?;
        gpu.streams.finish();
        gpu.heap()
            .abandon(address, open.base, open.handle.length as usize)?;
    }
    Ok(())
}
