//! Shared memory of blocks: below 4 GiB, since device code keeps its addresses in 32 bits.

use crate::error::{Error, Result};
use crate::pages::{self, PAGE};
use crate::per_thread::PerThread;

/// Alignment of the static and of the dynamic part.
const ALIGN: usize = 128;

/// Pieces that a worker keeps for its next blocks.
const KEPT: usize = 64;

/// Each thread's pieces that are not in use.
static IDLE: PerThread<Vec<ThreadMapping>> = PerThread::new();

/// A mapping of memory for threads.
#[derive(Debug)]
struct ThreadMapping {
    start: usize,
    length: usize,
}

impl ThreadMapping {
    fn new(length: usize) -> Result<ThreadMapping> {
        let length = length.next_multiple_of(PAGE);
        #[cfg(target_arch = "x86_64")]
        const LOW: libc::c_int = libc::MAP_32BIT;
        #[cfg(not(target_arch = "x86_64"))]
        const LOW: libc::c_int = 0;
        // SAFETY: a new mapping where the kernel finds room.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | LOW,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Error::MEMORY_ALLOCATION);
        }
        Ok(ThreadMapping {
            start: start as usize,
            length,
        })
    }
}

impl Drop for ThreadMapping {
    fn drop(&mut self) {
        pages::release(self.start, self.length);
    }
}

/// The shared memory of one block.
#[derive(Debug)]
pub struct BlockMemory {
    piece: Option<ThreadMapping>,
    /// The static part.
    pub fixed: *mut u8,
    /// The dynamic part.
    pub dynamic: *mut u8,
    /// The end of both memories.
    pub end: *mut u8,
}

impl BlockMemory {
    /// Memory for a block that needs that many bytes.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION` if the host has no room.
    pub fn new(fixed: usize, dynamic: usize) -> Result<BlockMemory> {
        let start_of_dynamic = fixed.next_multiple_of(ALIGN);
        let bytes = (start_of_dynamic + dynamic).max(1);
        let idle = IDLE.with(|idle| {
            let at = idle.iter().position(|piece| piece.length >= bytes)?;
            Some(idle.swap_remove(at))
        });
        let piece = idle.map_or_else(|| ThreadMapping::new(bytes), Ok)?;
        let base = piece.start as *mut u8;
        Ok(BlockMemory {
            piece: Some(piece),
            fixed: base,
            dynamic: base.wrapping_add(start_of_dynamic),
            end: base.wrapping_add(start_of_dynamic + dynamic),
        })
    }
}

impl Drop for BlockMemory {
    fn drop(&mut self) {
        let piece = self.piece.take();
        IDLE.with(|idle| {
            if let Some(piece) = piece
                && idle.len() < KEPT
            {
                idle.push(piece);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart_and_low() {
        let memory = BlockMemory::new(100, 5000).unwrap();
        let (fixed, dynamic) = (memory.fixed as usize, memory.dynamic as usize);
        assert_eq!(dynamic - fixed, 128);
        assert_eq!(memory.end as usize - dynamic, 5000);
        assert!(cfg!(not(target_arch = "x86_64")) || (memory.end as usize) < 1 << 32);
        let other = BlockMemory::new(100, 0).unwrap();
        assert_ne!(other.fixed, memory.fixed);
    }
}
