//! A made-up H200, for benchmarks that need no GPU.

use mgb_probe::{Gpu, Multiprocessors};

/// One of the node's GPUs, of which tasks may use so many bytes.
pub fn gpu(index: u32, usable_bytes: u64, context_bytes: u64) -> Gpu {
    let multiprocessors = Multiprocessors {
        count: 132,
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
        name: "made up".to_owned(),
        total_bytes: usable_bytes,
        usable_bytes,
        context_bytes,
        max_warps: multiprocessors.all_warps(),
        multiprocessors,
    }
}
