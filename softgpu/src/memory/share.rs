//! Device memory that processes share: what `cudaIpcMemHandle_t` stands for.
//!
//! The first handle to memory puts it into a file in memory, which whoever has the handle finds through the owner's
//! `/proc` entry: nothing is left behind when processes end, however they end, and nobody else's user may open it. The
//! owner is charged; who opens it is not. What the owner frees stays readable for those who have it open.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use parking_lot::Mutex;

use crate::device::{Gpu, node};
use crate::error::{Error, Result, say_once};

/// What a handle holds: as large as CUDA's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    magic: [u8; 8],
    pid: u32,
    fd: i32,
    inode: u64,
    /// Of the device on the node.
    index: u64,
    /// Bytes of the file.
    length: u64,
    /// Where the allocation begins in it.
    offset: u64,
    size: u64,
    reserved: u64,
}

const MAGIC: [u8; 8] = *b"sgpu-ipc";

/// One opened handle.
struct Open {
    handle: Handle,
    ordinal: usize,
    base: usize,
    count: u32,
}

static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

/// A handle to an allocation of this process.
///
/// # Errors
/// `INVALID_VALUE` where none begins, `OPERATING_SYSTEM` for no file.
pub fn export(gpu: &Gpu, address: usize) -> Result<Handle> {
    // Kernels must not write while the memory moves into its file.
    gpu.streams.finish();
    let shared = gpu.heap().share(address)?;
    let file = File::from(shared.file);
    let inode = file.metadata().map_err(|_| Error::OPERATING_SYSTEM)?.ino();
    let handle = Handle {
        magic: MAGIC,
        pid: std::process::id(),
        fd: shared.number,
        inode,
        index: gpu.index as u64,
        length: shared.length as u64,
        offset: shared.offset as u64,
        size: shared.size as u64,
        reserved: 0,
    };
    Ok(handle)
}

/// Opens another process's handle; the address in this one. Once more if it is open here already.
///
/// # Errors
/// `INVALID_HANDLE` for what is none or whose owner is gone, `INVALID_CONTEXT` for one of this process.
pub fn open(handle: &Handle) -> Result<usize> {
    if handle.magic != MAGIC {
        return Err(Error::INVALID_HANDLE);
    }
    if handle.pid == std::process::id() {
        return Err(Error::INVALID_CONTEXT);
    }
    let mut all = OPEN.lock();
    if let Some(open) = all.iter_mut().find(|open| open.handle == *handle) {
        open.count += 1;
        return Ok(open.base + handle.offset as usize);
    }
    let gpu = node()?.gpus().iter().find(|gpu| gpu.index as u64 == handle.index);
    let gpu = gpu.ok_or(Error::INVALID_DEVICE)?;
    gpu.enter()?;
    let file = find(handle)?;
    let base = gpu.heap().adopt(&file, handle)?;
    all.push(Open {
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

/// A device's memory is gone with its context.
pub fn forget(ordinal: usize) {
    OPEN.lock().retain(|open| open.ordinal != ordinal);
}

fn find(handle: &Handle) -> Result<OwnedFd> {
    let path = format!("/proc/{}/fd/{}", handle.pid, handle.fd);
    let file = OpenOptions::new().read(true).write(true).open(&path);
    let file = file.map_err(|error| {
        say_once(&format!(
            "failed to open the memory that process {} shares ({path}): {error}",
            handle.pid
        ));
        Error::INVALID_HANDLE
    })?;
    let metadata = file.metadata().map_err(|_| Error::OPERATING_SYSTEM)?;
    // The number may be another file's by now.
    if metadata.ino() != handle.inode || metadata.len() != handle.length {
        return Err(Error::INVALID_HANDLE);
    }
    Ok(file.into())
}

/// What the heap says of memory that is in a file.
pub struct Shared {
    /// A descriptor of its own.
    pub file: OwnedFd,
    /// The heap's descriptor, which stays open.
    pub number: i32,
    /// Bytes of the file.
    pub length: usize,
    /// Where the allocation begins in it.
    pub offset: usize,
    /// Bytes of the allocation.
    pub size: usize,
}

impl Handle {
    /// Bytes of the file, where the allocation begins in it, and its bytes.
    pub fn extent(&self) -> (usize, usize, usize) {
        (self.length as usize, self.offset as usize, self.size as usize)
    }
}

impl Shared {
    /// Of a file.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM` for no descriptor.
    pub fn of(file: &OwnedFd, length: usize, offset: usize, size: usize) -> Result<Shared> {
        Ok(Shared {
            file: file.try_clone().map_err(|_| Error::OPERATING_SYSTEM)?,
            number: file.as_raw_fd(),
            length,
            offset,
            size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<Handle>(), 64);
    }
}
