//! A small GPU.

use mgb_probe::{Gpu, Multiprocessors};

pub const MIB: u64 = 1 << 20;

/// One of 100 MiB.
pub fn gpu(index: u32) -> Gpu {
    let multiprocessors = Multiprocessors {
        count: 4,
        blocks: 32,
        warps: 64,
        registers: 65536,
        partitions: 4,
        shared_bytes: 228 << 10,
        shared_reserved: 1 << 10,
        shared_unit: 128,
    };
    Gpu {
        index,
        node_index: index,
        uuid: format!("GPU-{index}"),
        name: String::new(),
        total_bytes: 100 * MIB,
        usable_bytes: 100 * MIB,
        context_bytes: MIB,
        max_warps: multiprocessors.all_warps(),
        multiprocessors,
    }
}
