//! A piece of shared memory, mapped.

use std::ffi::c_void;
use std::os::fd::AsFd;

use rustix::mm::{MapFlags, ProtFlags};

/// A shared mapping of a file's first bytes; unmapped when dropped.
pub struct Mapping {
    base: *mut c_void,
    bytes: usize,
}

// SAFETY: the mapping is plain memory that belongs to no thread; what lies in
// it is only reached as atomics.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

/// What may be laid over shared memory.
///
/// # Safety
/// The type consists of atomics only, and all zeros is a valid value.
pub unsafe trait SharedLayout {}

impl Mapping {
    /// Maps `bytes` of `file`, for reading and, if `writable`, for writing.
    pub fn new(file: impl AsFd, bytes: usize, writable: bool) -> rustix::io::Result<Mapping> {
        let mut protection = ProtFlags::READ;
        if writable {
            protection |= ProtFlags::WRITE;
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no
        // memory that is in use.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)? };
        Ok(Mapping { base, bytes })
    }

    /// The mapping as a `T`; `None` if it is too small. A read-only mapping may
    /// only be read through it.
    pub fn shared<T: SharedLayout>(&self) -> Option<&T> {
        // SAFETY: the mapping is page aligned, large enough and lives as long
        // as `self`; T is made of atomics, so other writers are no data race.
        (size_of::<T>() <= self.bytes).then(|| unsafe { &*self.base.cast::<T>() })
    }

    /// Copies `bytes` to this place of a writable mapping; false if they do not fit. For memory that nobody
    /// else reads or writes meanwhile.
    pub fn write(&self, at: usize, bytes: &[u8]) -> bool {
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= self.bytes);
        if fits {
            // SAFETY: the mapping is as long as that and lives as long as `self`; the caller says that it is
            // the only one.
            unsafe {
                let place = self.base.cast::<u8>().add(at);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
            }
        }
        fits
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this size, and no borrow outlives self.
        let _ = unsafe { rustix::mm::munmap(self.base, self.bytes) };
    }
}
