//! A made-up H200, for benchmarks that need no GPU.

use mgb_probe::Gpu;
use mgb_scheduler::node::capability;

/// CUDA cores of one.
const CORES: u32 = 16896;

/// One of the node's GPUs, of which tasks may use so many bytes.
pub fn gpu(index: u32, usable_bytes: u64, context_bytes: u64) -> Gpu {
    let multiprocessors = capability::multiprocessors(CORES, 9, 0);
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
