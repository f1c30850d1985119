//! What a task asks for, in Rust and in C.

/// The need was found at run time, not by the pass.
pub const LAZY: u32 = 1;
/// The whole process is one task.
pub const PROCESS: u32 = 2;
/// The task touches device variables. Each GPU has its own: the tasks of a process that do so share a GPU.
pub const VARIABLES: u32 = 4;
/// No other process is to have room or a task on the task's GPU while it runs.
pub const ALONE: u32 = 8;
/// Nothing in the task's data depends on its GPU: it may go on, on another one.
pub const MOVABLE: u32 = 16;
/// Others wait for what the process computes, from the task on: see [`crate::become_latency`].
pub const LATENCY: u32 = 32;

/// What a task asks for. Sizes are bytes; 0 means "not known" except for
/// `peak_bytes`, where it means a task without memory of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// The largest sum of live objects, unrounded.
    pub peak_bytes: u64,
    /// Bound on it after granule rounding: what the ledger reserves.
    pub mapped_bytes: u64,
    /// Blocks of the largest launch.
    pub grid_blocks: u64,
    /// Threads per block of that launch.
    pub block_threads: u32,
    /// Registers per thread.
    pub registers: u32,
    /// Shared memory per block, static and dynamic.
    pub shared_bytes: u32,
    /// Device-side malloc heap beyond the default.
    pub heap_bytes: u64,
    /// [`LAZY`], [`PROCESS`], [`VARIABLES`], [`ALONE`], [`MOVABLE`] and [`LATENCY`].
    pub flags: u32,
    /// Higher goes first under policies that look at it; 0 stands for the process's `MGB_PRIORITY`.
    pub priority: u32,
    /// Nanoseconds from the task's begin until its result is wanted; 0 stands for the process's
    /// `MGB_DEADLINE`.
    pub deadline_ns: u64,
}

/// Bytes of the smallest piece of physical memory a GPU maps.
pub const GRANULE: u64 = 2 << 20;
/// Bytes of freed memory that a process may keep mapped on a GPU with so many usable bytes; charged with its
/// context. Nothing on a GPU so small that it would be missed.
pub fn spare_bytes(usable_bytes: u64) -> u64 {
    (usable_bytes >> 11).min(4 * GRANULE) / GRANULE * GRANULE
}

/// Bytes of memory that a process has before its first array on a GPU with so many usable bytes; charged with
/// its context. As with [`spare_bytes`], nothing on a small GPU.
pub fn margin_bytes(usable_bytes: u64) -> u64 {
    if usable_bytes < 1 << 30 { 0 } else { GRANULE }
}

impl Need {
    /// The bytes the ledger reserves: `mapped_bytes`, or where it is 0 the peak
    /// in whole granules; never less than the peak; with the heap.
    pub fn reserved_bytes(&self) -> u64 {
        let rounded = self.peak_bytes.div_ceil(GRANULE).saturating_mul(GRANULE);
        let mapped = if self.mapped_bytes == 0 {
            rounded
        } else {
            self.mapped_bytes.max(self.peak_bytes)
        };
        mapped.saturating_add(self.heap_bytes)
    }

    /// Warps of the largest launch: blocks × ceil(threads / 32), saturating in
    /// 64 bits. `None` when the launch is not known.
    pub fn warps(&self) -> Option<u64> {
        (self.grid_blocks != 0 && self.block_threads != 0).then(|| {
            self.grid_blocks
                .saturating_mul(u64::from(self.block_threads.div_ceil(32)))
        })
    }
}

/// `mgb_need` of `mgb.h`. `size` lets it grow: a shorter one is read as if the
/// missing fields were 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawNeed {
    /// `sizeof(mgb_need)` of the caller.
    pub size: u32,
    /// See [`Need::flags`]; likewise the rest.
    pub flags: u32,
    /// The same as [`Need::peak_bytes`].
    pub peak_bytes: u64,
    /// The same as [`Need::mapped_bytes`].
    pub mapped_bytes: u64,
    /// The same as [`Need::grid_blocks`].
    pub grid_blocks: u64,
    /// The same as [`Need::block_threads`].
    pub block_threads: u32,
    /// The same as [`Need::registers`].
    pub registers: u32,
    /// The same as [`Need::shared_bytes`].
    pub shared_bytes: u32,
    /// The same as [`Need::priority`].
    pub priority: u32,
    /// The same as [`Need::heap_bytes`].
    pub heap_bytes: u64,
    /// The same as [`Need::deadline_ns`].
    pub deadline_ns: u64,
}

const _: () = assert!(size_of::<RawNeed>() == 64);

impl RawNeed {
    /// Reads the caller's structure, whose own `size` says how much there is.
    ///
    /// # Safety
    /// `raw` points to a readable `mgb_need` of at least the four bytes of
    /// `size`, and of `size` bytes in all.
    pub unsafe fn read(raw: *const RawNeed) -> Need {
        // SAFETY: the four bytes of `size` are readable: contract of this function.
        let stated = unsafe { raw.cast::<u32>().read_unaligned() } as usize;
        let mut own = RawNeed::default();
        let bytes = stated.min(size_of::<RawNeed>());
        // SAFETY: `raw` is readable for `size` bytes (contract of this function), of which `bytes` is no
        // more, and `own` holds as many; every bit pattern is a valid RawNeed.
        unsafe {
            std::ptr::copy_nonoverlapping(raw.cast::<u8>(), (&raw mut own).cast::<u8>(), bytes);
        }
        own.into()
    }
}

impl From<RawNeed> for Need {
    fn from(raw: RawNeed) -> Need {
        Need {
            peak_bytes: raw.peak_bytes,
            mapped_bytes: raw.mapped_bytes,
            grid_blocks: raw.grid_blocks,
            block_threads: raw.block_threads,
            registers: raw.registers,
            shared_bytes: raw.shared_bytes,
            heap_bytes: raw.heap_bytes,
            flags: raw.flags,
            priority: raw.priority,
            deadline_ns: raw.deadline_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_whole_granules_and_never_less_than_the_peak() {
        let mut need = Need {
            peak_bytes: 1,
            ..Need::default()
        };
        assert_eq!(need.reserved_bytes(), GRANULE);
        need.peak_bytes = 3 * GRANULE;
        need.mapped_bytes = GRANULE;
        assert_eq!(need.reserved_bytes(), 3 * GRANULE);
        assert_eq!(Need::default().reserved_bytes(), 0);
    }

    #[test]
    fn warps_saturate() {
        let need = Need {
            grid_blocks: u64::MAX,
            block_threads: 1024,
            ..Need::default()
        };
        assert_eq!(need.warps(), Some(u64::MAX));
        let need = Need {
            grid_blocks: 3,
            block_threads: 33,
            ..Need::default()
        };
        assert_eq!(need.warps(), Some(6));
        assert_eq!(Need::default().warps(), None);
    }

    #[test]
    fn a_short_need_reads_as_zeros() {
        let raw = RawNeed {
            size: 16,
            peak_bytes: 7,
            grid_blocks: 9,
            ..RawNeed::default()
        };
        // SAFETY: `raw` is a whole RawNeed, and its `size` is 16, which is less.
        let need = unsafe { RawNeed::read(&raw) };
        assert_eq!((need.peak_bytes, need.grid_blocks), (7, 0));
    }
}
