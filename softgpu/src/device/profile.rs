//! What a software device claims to be: the figures of an H200-like device of compute capability 9.0.
//!
//! Programs read these to choose launch shapes, so they are those of a real device; memory is the
//! configured one.

/// The figures of one kind of device.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Compute capability.
    pub major: i32,
    /// Compute capability.
    pub minor: i32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Lanes that one multiprocessor runs per cycle.
    pub lanes_per_multiprocessor: u32,
    /// Clock in kHz.
    pub clock_khz: u32,
    /// Memory clock in kHz.
    pub memory_clock_khz: u32,
    /// Memory bus in bits.
    pub memory_bus_bits: u32,
    /// L2 cache in bytes.
    pub l2_bytes: u32,
    /// Threads of a warp.
    pub warp: u32,
    /// Most threads of a block.
    pub block_threads: u32,
    /// Most threads of a block in each dimension.
    pub block_dim: [u32; 3],
    /// Most blocks of a grid in each dimension.
    pub grid_dim: [u32; 3],
    /// Threads that one multiprocessor holds.
    pub threads_per_multiprocessor: u32,
    /// Blocks that one multiprocessor holds.
    pub blocks_per_multiprocessor: u32,
    /// Registers of one multiprocessor, and of one block.
    pub registers: u32,
    /// Most registers of a thread.
    pub registers_per_thread: u32,
    /// Shared memory of one multiprocessor.
    pub shared_per_multiprocessor: u32,
    /// Shared memory that a block gets without asking for more.
    pub shared_per_block: u32,
    /// Shared memory that a block can ask for.
    pub shared_per_block_optin: u32,
    /// Shared memory that the system keeps per block.
    pub shared_reserved: u32,
    /// Constant memory.
    pub constant_bytes: u32,
}

/// The one profile there is so far.
pub const SM_90: Profile = Profile {
    major: 9,
    minor: 0,
    multiprocessors: 132,
    lanes_per_multiprocessor: 128,
    clock_khz: 1_980_000,
    memory_clock_khz: 3_201_000,
    memory_bus_bits: 6144,
    l2_bytes: 60 << 20,
    warp: 32,
    block_threads: 1024,
    block_dim: [1024, 1024, 64],
    grid_dim: [0x7fff_ffff, 65535, 65535],
    threads_per_multiprocessor: 2048,
    blocks_per_multiprocessor: 32,
    registers: 65536,
    registers_per_thread: 255,
    shared_per_multiprocessor: 228 << 10,
    shared_per_block: 48 << 10,
    shared_per_block_optin: 227 << 10,
    shared_reserved: 1 << 10,
    constant_bytes: 64 << 10,
};

/// Name that devices go by.
pub const NAME: &str = "MGB Software GPU (sm_90)";

/// The driver's version, as NVML tells it.
pub const DRIVER_VERSION: &str = "580.00.00-softgpu";

/// CUDA's version, of runtime and driver: 13.0.
pub const CUDA_VERSION: i32 = 13000;

impl Profile {
    /// Warps that the whole device holds.
    pub fn warps(&self) -> u64 {
        u64::from(self.multiprocessors) * u64::from(self.threads_per_multiprocessor / self.warp)
    }

    /// How many blocks of this shape one multiprocessor holds: the least of what threads, blocks,
    /// registers (allocated per warp in units of 256) and shared memory (in units of 1 KiB, with
    /// the system's share) allow.
    pub fn blocks_resident(&self, threads: u32, registers_per_thread: u32, shared: u64) -> u32 {
        if threads == 0 || threads > self.block_threads {
            return 0;
        }
        let warps = threads.div_ceil(self.warp);
        let by_threads = self.threads_per_multiprocessor / (warps * self.warp);
        let registers_per_warp = (registers_per_thread.max(1) * self.warp).next_multiple_of(256);
        let by_registers = self.registers / registers_per_warp / warps;
        let per_block = (shared + u64::from(self.shared_reserved)).next_multiple_of(1024);
        let by_shared = u64::from(self.shared_per_multiprocessor) / per_block;
        by_threads
            .min(by_registers)
            .min(by_shared as u32)
            .min(self.blocks_per_multiprocessor)
    }
}

/// The 16 bytes of a device's UUID: the same for the same index, always.
pub fn uuid(index: usize) -> [u8; 16] {
    let mut bytes = *b"mgb-softgpu\0\0\0\0\0";
    bytes[15] = index as u8;
    bytes
}

/// A UUID as CUDA and NVML spell it.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex =
        |range: std::ops::Range<usize>| uuid[range].iter().map(|b| format!("{b:02x}")).collect::<String>();
    format!(
        "GPU-{}-{}-{}-{}-{}",
        hex(0..4),
        hex(4..6),
        hex(6..8),
        hex(8..10),
        hex(10..16)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_is_the_tightest_limit() {
        assert_eq!(SM_90.warps(), 8448);
        assert_eq!(SM_90.blocks_resident(256, 32, 0), 8);
        assert_eq!(SM_90.blocks_resident(32, 16, 0), 32);
        assert_eq!(SM_90.blocks_resident(1024, 64, 0), 1);
        assert_eq!(SM_90.blocks_resident(256, 32, 100 << 10), 2);
        assert_eq!(SM_90.blocks_resident(1024, 255, 0), 0);
        assert_eq!(SM_90.blocks_resident(2048, 1, 0), 0);
    }

    #[test]
    fn uuids_tell_devices_apart() {
        assert_eq!(uuid_text(&uuid(3)), "GPU-6d67622d-736f-6674-6770-750000000003");
    }
}
