//! What a software device claims to be: the figures of one kind of real device.
//!
//! Programs read these to choose launch shapes, launches are checked against them, and the model of device
//! time counts with them, so they are those of a real device; memory is the configured one. The kinds that
//! there are stand in [`super::profiles`].

/// The figures of one kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// How `SOFTGPU_DEVICES` calls it; empty for the standard one.
    pub key: &'static str,
    /// The name that programs and monitors see.
    pub name: &'static str,
    /// The major number of the compute capability.
    pub major: i32,
    /// The minor number of the compute capability.
    pub minor: i32,
    /// Device memory, where none is configured.
    pub memory: u64,
    /// How many streaming multiprocessors there are.
    pub multiprocessors: u32,
    /// Lanes that one multiprocessor runs per cycle, in single precision.
    pub lanes_per_multiprocessor: u32,
    /// How many times slower than single precision double precision is.
    pub double_ratio: u32,
    /// Parts of a multiprocessor, each with its own registers.
    pub partitions: u32,
    /// Clock in kHz.
    pub clock_khz: u32,
    /// Memory clock in kHz.
    pub memory_clock_khz: u32,
    /// Memory bus in bits.
    pub memory_bus_bits: u32,
    /// L2 cache in bytes.
    pub l2_bytes: u32,
    /// Engines that copy.
    pub copy_engines: u32,
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
    /// The unit in which shared memory is given to blocks.
    pub shared_unit: u32,
    /// The size of the constant memory in bytes.
    pub constant_bytes: u32,
    /// The model's rates.
    pub rates: Rates,
}

/// Bytes per microsecond that the model of device time counts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Within the device.
    pub memory: u64,
    /// Between the device and pinned host memory, each way.
    pub pinned: u64,
    /// Between the device and pageable host memory, each way.
    pub pageable: u64,
    /// From device to device, each way.
    pub peer: u64,
}

/// The driver's version, as NVML reports it.
pub const DRIVER_VERSION: &str = "580.00.00-softgpu";

/// CUDA's version, of runtime and driver: 13.0.
pub const CUDA_VERSION: i32 = 13000;

impl Profile {
    /// Warps that the whole device holds.
    pub fn warps(&self) -> u64 {
        self.warps_of(self.multiprocessors)
    }

    /// Warps that so many of its multiprocessors hold.
    pub fn warps_of(&self, multiprocessors: u32) -> u64 {
        u64::from(multiprocessors) * u64::from(self.threads_per_multiprocessor / self.warp)
    }

    /// How many blocks of this shape one multiprocessor holds: the least of what threads, blocks, registers
    /// (allocated per warp in units of 256, from the registers of one partition) and shared memory (in the
    /// device's unit, with the system's share) allow.
    pub fn blocks_resident(&self, threads: u32, registers_per_thread: u32, shared: u64) -> u32 {
        if threads == 0 || threads > self.block_threads {
            return 0;
        }
        let warps = threads.div_ceil(self.warp);
        let by_threads = self.threads_per_multiprocessor / (warps * self.warp);
        let registers_per_warp = (registers_per_thread.max(1) * self.warp).next_multiple_of(256);
        let by_registers = self.registers / self.partitions / registers_per_warp * self.partitions / warps;
        let per_block = (shared + u64::from(self.shared_reserved)).next_multiple_of(self.shared_unit.into());
        let by_shared = u64::from(self.shared_per_multiprocessor)
            .checked_div(per_block)
            .unwrap_or(u64::MAX);
        by_threads
            .min(by_registers)
            .min(u32::try_from(by_shared).unwrap_or(u32::MAX))
            .min(self.blocks_per_multiprocessor)
    }

    /// The most registers that a thread can have in blocks of so many threads.
    pub fn most_registers(&self, threads: u32) -> u32 {
        let warps = threads
            .div_ceil(self.warp)
            .max(1)
            .next_multiple_of(self.partitions);
        (self.registers / (warps * self.warp) / 8 * 8).min(self.registers_per_thread)
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
    use super::super::profiles::{P100, STANDARD, V100};
    use super::*;

    #[test]
    fn occupancy_is_the_tightest_limit() {
        assert_eq!(STANDARD.warps(), 8448);
        assert_eq!(STANDARD.blocks_resident(256, 32, 0), 8);
        assert_eq!(STANDARD.blocks_resident(32, 16, 0), 32);
        assert_eq!(STANDARD.blocks_resident(1024, 64, 0), 1);
        assert_eq!(STANDARD.blocks_resident(256, 32, 100 << 10), 2);
        assert_eq!(STANDARD.blocks_resident(1024, 255, 0), 0);
        assert_eq!(STANDARD.blocks_resident(2048, 1, 0), 0);
    }

    #[test]
    fn registers_come_from_the_parts_of_a_multiprocessor() {
        // 96 registers: a warp takes 3072 of a part's 16384, so 5 warps fit there, and of Pascal's halves 10.
        assert_eq!(V100.blocks_resident(7 * 32, 96, 0), 20 / 7);
        assert_eq!(P100.blocks_resident(7 * 32, 96, 0), 20 / 7);
        assert_eq!(V100.blocks_resident(32, 96, 0), 20);
        // 72: 2304, of which 7 fit into a quarter, 14 into a half, and 28 into the whole.
        assert_eq!(V100.blocks_resident(4 * 32, 72, 0), 7);
    }

    #[test]
    fn shared_memory_bounds_blocks_as_the_kind_has_it() {
        assert_eq!(P100.blocks_resident(32, 16, 48 << 10), 1);
        assert_eq!(V100.blocks_resident(32, 16, 48 << 10), 2);
        assert_eq!(STANDARD.blocks_resident(32, 16, 48 << 10), 4);
    }

    #[test]
    fn uuids_tell_devices_apart() {
        assert_eq!(uuid_text(&uuid(3)), "GPU-6d67622d-736f-6674-6770-750000000003");
    }
}
