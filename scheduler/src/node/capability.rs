//! What multiprocessors hold, by compute capability: the table of technical
//! specifications in NVIDIA's CUDA C++ Programming Guide, and the occupancy rules
//! of its tuning guides. NVML tells neither these nor the number of
//! multiprocessors, which follows from that of cores.

use mgb_probe::Multiprocessors;

/// Those of a GPU with so many CUDA cores and this compute capability. Unknown capabilities are taken for the
/// latest data-centre kind.
pub fn multiprocessors(cores: u32, major: i32, minor: i32) -> Multiprocessors {
    let (cores_each, blocks, warps, shared_kib) = match (major, minor) {
        (6, 0) => (64, 32, 64, 64),
        (6, _) => (128, 32, 64, 96),
        (7, 5) => (64, 16, 32, 64),
        (7, _) => (64, 32, 64, 96),
        (8, 0) => (64, 32, 64, 164),
        (8, 7) => (128, 16, 48, 164),
        (8, 9) => (128, 24, 48, 100),
        (8, _) => (128, 16, 48, 100),
        (12, _) => (128, 24, 48, 100),
        _ => (128, 32, 64, 228),
    };
    let ampere = major >= 8;
    Multiprocessors {
        count: (cores / cores_each).max(1),
        blocks,
        warps,
        registers: 64 << 10,
        partitions: if (major, minor) == (6, 0) { 2 } else { 4 },
        shared_bytes: shared_kib << 10,
        shared_reserved: if ampere { 1 << 10 } else { 0 },
        shared_unit: if ampere { 128 } else { 256 },
    }
}

/// Where the size of the GPU cannot be learned: a middling GPU's, so that tasks still differ.
pub(super) fn unknown() -> Multiprocessors {
    multiprocessors(64 * 128, 9, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_h200_holds_8448_warps() {
        let h200 = multiprocessors(16896, 9, 0);
        assert_eq!((h200.count, h200.all_warps()), (132, 8448));
        assert_eq!(unknown().all_warps(), 4096);
    }
}
