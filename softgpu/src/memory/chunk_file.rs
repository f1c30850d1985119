//! The file in memory behind the chunks that small allocations share.
//!
//! A handle to an allocation opens its chunk to other processes. Other allocations lie in the same chunk, and
//! may be written at any time: moving the chunk into a file when a handle is made would lose what is written
//! meanwhile. So it is in a file from its beginning.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags};

use crate::error::{Error, Result};
use crate::pages;

/// Chunks of one size, each at its address and at an offset of the file.
#[derive(Debug, Default)]
pub struct ChunkFile {
    file: Option<OwnedFd>,
    offsets: BTreeMap<usize, u64>,
    /// Offsets that chunks have left.
    free: Vec<u64>,
    /// Chunks that other processes may have mapped. Their offsets are not used again: what the owner frees
    /// stays readable there.
    shared: BTreeSet<usize>,
    length: u64,
}

impl ChunkFile {
    /// Puts zeroed memory behind a reserved range of `bytes`, the size of every chunk.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION` where the system has no file or no memory.
    pub fn fill(&mut self, address: usize, bytes: usize) -> Result {
        let failed = |_| Error::MEMORY_ALLOCATION;
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = rustix::fs::memfd_create("softgpu-memory", MemfdFlags::CLOEXEC);
                none.insert(file.map_err(failed)?)
            }
        };
        let offset = match self.free.pop() {
            Some(offset) => offset,
            None => {
                rustix::fs::ftruncate(&*file, self.length + bytes as u64).map_err(failed)?;
                self.length += bytes as u64;
                self.length - bytes as u64
            }
        };
        let mapped = pages::map_file(address, bytes, file.as_fd(), offset)
            .and_then(|()| pages::protect(address, bytes, true, true));
        if mapped.is_ok() {
            self.offsets.insert(address, offset);
        } else {
            self.free.push(offset);
        }
        mapped
    }

    /// Forgets the chunks in a range whose addresses have been emptied.
    pub fn forget(&mut self, start: usize, length: usize, bytes: usize) {
        let gone: Vec<usize> = self
            .offsets
            .range(start..start + length)
            .map(|(at, _)| *at)
            .collect();
        for address in gone {
            let (Some(offset), Some(file)) = (self.offsets.remove(&address), &self.file) else {
                continue;
            };
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let is_free = !self.shared.remove(&address);
            if is_free && rustix::fs::fallocate(file, hole, offset, bytes as u64).is_ok() {
                self.free.push(offset);
            }
        }
    }

    /// The file and the offset of the chunk that begins at an address, which other processes may map from now
    /// on.
    pub fn share(&mut self, address: usize) -> Option<(&OwnedFd, u64)> {
        let offset = *self.offsets.get(&address)?;
        self.shared.insert(address);
        Some((self.file.as_ref()?, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 2 << 20;

    fn byte(address: usize) -> &'static std::sync::atomic::AtomicU8 {
        // SAFETY: the tests' own mappings, which stay.
        unsafe { &*(address as *const std::sync::atomic::AtomicU8) }
    }

    /// A copy that is made for the others when they ask would lose what is written meanwhile.
    #[test]
    fn a_chunk_is_in_the_file_before_it_is_shared() {
        use std::sync::atomic::Ordering::Relaxed;

        let mut chunks = ChunkFile::default();
        let [own, others] = [(); 2].map(|()| pages::reserve(0, CHUNK, CHUNK).expect("addresses"));
        chunks.fill(own, CHUNK).expect("memory");
        byte(own).store(1, Relaxed);
        let (file, at) = chunks.share(own).expect("it is there");
        pages::map_file(others, CHUNK, file.as_fd(), at).expect("memory");
        pages::protect(others, CHUNK, true, true).expect("access");
        byte(own).store(2, Relaxed);
        assert_eq!(byte(others).load(Relaxed), 2);
        // What the owner frees stays for the others, and the next chunk is not theirs.
        pages::empty(own, CHUNK).expect("memory");
        chunks.forget(own, CHUNK, CHUNK);
        chunks.fill(own, CHUNK).expect("memory");
        byte(own).store(3, Relaxed);
        assert_eq!(byte(others).load(Relaxed), 2);
    }

    #[test]
    fn a_chunk_that_nobody_shares_is_used_again_and_is_zero() {
        use std::sync::atomic::Ordering::Relaxed;

        let mut chunks = ChunkFile::default();
        let own = pages::reserve(0, CHUNK, CHUNK).expect("addresses");
        for _ in 0..3 {
            chunks.fill(own, CHUNK).expect("memory");
            assert_eq!(byte(own).load(Relaxed), 0);
            byte(own).store(7, Relaxed);
            pages::empty(own, CHUNK).expect("memory");
            chunks.forget(own, CHUNK, CHUNK);
        }
        assert_eq!(chunks.length, CHUNK as u64);
    }
}
