//! Host memory for the bytes that leave a GPU: mapped by itself in huge pages where the system has them, and
//! touched first by whoever copies into it, so that no thread zeroes it before.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::{control_group, own_thread};

/// So many bytes are freed by a thread of their own: the system takes up to a second for 16 GiB.
const MAX_FREED_AT_ONCE: usize = 64 << 20;

/// So many bytes of it.
#[derive(Debug)]
pub struct HostBytes {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is this value's own.
unsafe impl Send for HostBytes {}
// SAFETY: as above; it is changed through `&mut` only.
unsafe impl Sync for HostBytes {}

/// How much host memory what leaves a GPU now may take in all: no more than the process's control groups
/// allow it, of which an eighth stays for the program itself. With one byte too many the kernel ends the
/// process.
#[derive(Debug)]
pub struct Budget(u64);

impl Budget {
    /// What there is at this moment.
    pub fn now() -> Budget {
        Budget(control_group::room().map_or(u64::MAX, |room| room - room / 8))
    }

    /// Memory of zeros. `None`: there is none to be had.
    pub fn take(&mut self, bytes: usize) -> Option<HostBytes> {
        let left = self.0.checked_sub(bytes as u64)?;
        let taken = HostBytes::new(bytes)?;
        self.0 = left;
        Some(taken)
    }
}

impl HostBytes {
    /// Memory of zeros. `None`: the system gives no addresses for it.
    fn new(bytes: usize) -> Option<HostBytes> {
        if bytes == 0 {
            let start = NonNull::dangling();
            return Some(HostBytes { start, bytes });
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping, wherever the system puts it.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) }.ok()?;
        // A system without huge pages does without.
        // SAFETY: the mapping that was just made.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
        Some(HostBytes {
            start: NonNull::new(start.cast())?,
            bytes,
        })
    }
}

/// What is said where there is none to be had for so many bytes.
pub fn too_little(bytes: u64) -> String {
    format!(
        "too little host memory, or too low a limit of this process's control group, to swap {bytes} bytes of device \
         memory out: it stays on its GPU"
    )
}

/// Frees what is not needed any more, without having the caller wait for it.
pub fn free(gone: Vec<HostBytes>) {
    if gone.iter().map(|bytes| bytes.len()).sum::<usize>() >= MAX_FREED_AT_ONCE {
        // Where there is no thread for it they are dropped with it, here.
        own_thread::start("mgb-free", move || drop(gone));
    }
}

impl Deref for HostBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped and readable for so many bytes as long as this lives; not null.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for HostBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and writable; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the mapping that `new` made, to which no reference is left.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_memory_of_any_size() {
        for bytes in [0, 1, 4096, (4 << 20) + 1] {
            let mut memory = HostBytes::new(bytes).expect("there is memory");
            assert_eq!(memory.len(), bytes);
            assert!(memory.iter().all(|byte| *byte == 0));
            memory.fill(7);
            assert!(memory.iter().all(|byte| *byte == 7));
        }
        assert!(HostBytes::new(usize::MAX / 2).is_none());
    }
}
