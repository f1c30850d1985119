//! Pages of this process's address space: reserved without access, filled, protected, emptied.

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use crate::error::{Error, Result};

/// The size of a page of the host.
pub const PAGE: usize = 4096;

/// Reserves `length` bytes of addresses, aligned to `align`, at `wanted` if that is not zero and
/// free. Nothing can be read or written there, and no memory is taken.
pub fn reserve(wanted: usize, length: usize, align: usize) -> Result<usize> {
    if wanted != 0 && wanted.is_multiple_of(align.max(PAGE)) {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: this flag never replaces a mapping.
        let got =
            unsafe { rustix::mm::mmap_anonymous(wanted as *mut c_void, length, ProtFlags::empty(), flags) };
        match got {
            Ok(address) if address as usize == wanted => return Ok(wanted),
            // A kernel that does not know the flag takes the address as a hint.
            Ok(address) => release(address as usize, length),
            Err(_) => {}
        }
    }
    let slack = if align > PAGE { align } else { 0 };
    let whole = length.checked_add(slack).ok_or(Error::MEMORY_ALLOCATION)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping where the kernel finds room.
    let got = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), whole, ProtFlags::empty(), flags) };
    let start = got.map_err(|_| Error::MEMORY_ALLOCATION)? as usize;
    let address = start.next_multiple_of(align.max(PAGE));
    if address > start {
        release(start, address - start);
    }
    if start + whole > address + length {
        release(address + length, start + whole - address - length);
    }
    Ok(address)
}

/// Gives addresses back to the system.
pub fn release(address: usize, length: usize) {
    // SAFETY: callers own the range. Failure (of a whole reservation) leaves it reserved, no more.
    let _ = unsafe { rustix::mm::munmap(address as *mut c_void, length) };
}

/// Puts zeroed memory behind a reserved range.
pub fn fill(address: usize, length: usize) -> Result {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    replace(address, length, ProtFlags::READ | ProtFlags::WRITE, flags)
}

/// Makes pages fault without making them a mapping of their own; `false` where the kernel cannot (Linux has
/// it from 6.13 on).
pub fn guard(address: usize, length: usize) -> bool {
    /// `MADV_GUARD_INSTALL`
    const INSTALL: libc::c_int = 102;
    // SAFETY: callers own the range, and hold nothing in it.
    unsafe { libc::madvise(address as *mut c_void, length, INSTALL) == 0 }
}

/// Takes the memory behind a reserved range away; the addresses stay reserved.
pub fn empty(address: usize, length: usize) -> Result {
    replace(
        address,
        length,
        ProtFlags::empty(),
        MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
    )
}

fn replace(address: usize, length: usize, access: ProtFlags, flags: MapFlags) -> Result {
    // SAFETY: callers pass a range of their own reservation, which may be replaced.
    let got = unsafe { rustix::mm::mmap_anonymous(address as *mut c_void, length, access, flags) };
    got.map(drop).map_err(|_| Error::MEMORY_ALLOCATION)
}

/// Puts a piece of a file behind a reserved range, without access.
pub fn map_file(address: usize, length: usize, file: BorrowedFd<'_>, offset: u64) -> Result {
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: callers pass a range of their own reservation, which may be replaced.
    let got = unsafe {
        rustix::mm::mmap(
            address as *mut c_void,
            length,
            ProtFlags::empty(),
            flags,
            file,
            offset,
        )
    };
    got.map(drop).map_err(|_| Error::MEMORY_ALLOCATION)
}

/// Puts the memory behind a range into a file, with what it holds. No thread may write there meanwhile.
pub fn into_file(address: usize, length: usize) -> Result<OwnedFd> {
    let failed = |_| Error::OPERATING_SYSTEM;
    let file = rustix::fs::memfd_create("softgpu-shared-memory", MemfdFlags::CLOEXEC).map_err(failed)?;
    let file = std::fs::File::from(file);
    file.set_len(length as u64)
        .map_err(|_| Error::MEMORY_ALLOCATION)?;
    // SAFETY: callers own the range, which can be read, and no thread writes to it.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, length) };
    for (at, page) in bytes.chunks(PAGE).enumerate() {
        // What is zero is a hole.
        if page.iter().any(|&byte| byte != 0) {
            file.write_all_at(page, (at * PAGE) as u64)
                .map_err(|_| Error::MEMORY_ALLOCATION)?;
        }
    }
    map_file(address, length, file.as_fd(), 0)?;
    protect(address, length, true, true)?;
    Ok(file.into())
}

/// Sets the protection of a range: nothing, read, or read and write.
pub fn protect(address: usize, length: usize, read: bool, write: bool) -> Result {
    let mut access = MprotectFlags::empty();
    access.set(MprotectFlags::READ, read);
    access.set(MprotectFlags::WRITE, write);
    // SAFETY: callers pass a range of device memory, which no Rust reference points into.
    unsafe { rustix::mm::mprotect(address as *mut c_void, length, access) }
        .map_err(|_| Error::MEMORY_ALLOCATION)
}
