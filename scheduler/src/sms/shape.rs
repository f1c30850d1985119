//! What a launch asks of a multiprocessor: occupancy.
//!
//! The rules are those of the CUDA C++ Best Practices Guide and of the occupancy
//! calculator: registers are given to warps in units of 256, from the part of the
//! multiprocessor that the warp is on; shared memory to blocks in the
//! multiprocessor's unit, with the system's share on top.

use mgb_probe::{Multiprocessors, Need};

const WARP: u32 = 32;
/// Registers are given out in units of this many.
const REGISTER_UNIT: u32 = 256;
/// The most threads a block can have.
const BLOCK_THREADS: u32 = 1024;

/// A task's largest launch. Nothing in it is to be believed: it is a client's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskLaunch {
    /// Blocks; 0: nothing is known of the launch.
    pub blocks: u32,
    /// Threads per block.
    pub threads: u32,
    /// Registers per thread; 0: not known, as many as there are.
    pub registers: u32,
    /// Bytes of shared memory per block; 0: none or not known.
    pub shared: u32,
}

impl TaskLaunch {
    /// That of a need. More blocks than 32 bits hold are as many as those: no GPU holds either.
    pub fn of(need: &Need) -> TaskLaunch {
        if need.grid_blocks == 0 || need.block_threads == 0 {
            return TaskLaunch::default();
        }
        TaskLaunch {
            blocks: u32::try_from(need.grid_blocks).unwrap_or(u32::MAX),
            threads: need.block_threads,
            registers: need.registers,
            shared: need.shared_bytes,
        }
    }

    /// Warps of all blocks; `None` if nothing is known.
    pub fn warps(&self) -> Option<u64> {
        (self.blocks != 0).then(|| u64::from(self.blocks) * u64::from(self.threads.div_ceil(WARP)))
    }
}

/// A launch on a kind of multiprocessor: its blocks, no more than the GPU holds,
/// and what each of them takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmShape {
    /// Blocks that run at once at most.
    pub blocks: u32,
    /// Blocks that an idle multiprocessor holds; at least 1.
    pub per_sm: u32,
    /// Warps of a block.
    pub(super) warps: u16,
    /// Its registers, in units.
    pub(super) registers: u16,
    /// Its shared memory, in units.
    pub(super) shared: u16,
}

/// Units of registers and of shared memory that a multiprocessor has.
pub(super) fn units(kind: &Multiprocessors) -> (u32, u32) {
    (
        kind.registers / REGISTER_UNIT,
        kind.shared_bytes / kind.shared_unit.max(1),
    )
}

impl SmShape {
    /// What the launch takes on this kind. One of which nothing is known takes
    /// all warps of the GPU. A block that no multiprocessor holds, with which CUDA
    /// will fail the launch, counts as one that takes a whole one.
    pub fn of(launch: &TaskLaunch, kind: &Multiprocessors) -> SmShape {
        let (all_registers, all_shared) = units(kind);
        if launch.blocks == 0 {
            return SmShape {
                blocks: kind.count,
                per_sm: 1,
                warps: kind.warps as u16,
                registers: 0,
                shared: 0,
            };
        }
        let warps = launch
            .threads
            .clamp(1, BLOCK_THREADS)
            .div_ceil(WARP)
            .min(kind.warps);
        let by_registers = if launch.registers == 0 {
            (u32::MAX, 0)
        } else {
            let each = (launch.registers.min(REGISTER_UNIT) * WARP).div_ceil(REGISTER_UNIT);
            let parts = kind.partitions.max(1);
            (all_registers / parts / each * parts / warps, each * warps)
        };
        let by_shared = if launch.shared == 0 {
            (u32::MAX, 0)
        } else {
            let bytes = u64::from(launch.shared) + u64::from(kind.shared_reserved);
            let each = bytes.div_ceil(u64::from(kind.shared_unit.max(1)));
            let each = u32::try_from(each).unwrap_or(u32::MAX);
            (all_shared / each, each)
        };
        let per_sm = kind
            .blocks
            .min(kind.warps / warps)
            .min(by_registers.0)
            .min(by_shared.0)
            .max(1);
        SmShape {
            blocks: launch.blocks.min(per_sm.saturating_mul(kind.count)),
            per_sm,
            warps: warps as u16,
            registers: by_registers.1.min(all_registers) as u16,
            shared: by_shared.1.min(all_shared) as u16,
        }
    }

    /// What a block takes, in the order of the books.
    pub(super) fn each(&self) -> [u32; 4] {
        [1, self.warps.into(), self.registers.into(), self.shared.into()]
    }
}
