//! How long the device takes: the model of device time.
//!
//! A copy takes a latency of 8 us and its bytes over the link, at the rate that the device's profile has for
//! pinned or for pageable host memory (H200s, measured: 55 and 9.6 GB/s). Within the device, copies and sets
//! take 3 us and their bytes, read and written, at the profile's rate of memory (4 TB/s). Between devices
//! they take 8 us and their bytes at the rate of the links between devices, the slower device's (375 GB/s).
//!
//! A kernel takes 4 us of launch latency and the longer of two times:
//! - throughput: all instructions that its threads executed, over one lane-instruction per lane and
//!   cycle on the multiprocessors that its blocks can occupy;
//! - latency: the longest thread's instructions at four cycles each, for each wave of blocks that
//!   the device holds at once.
//!
//! Instructions are LLVM's, counted by the translated code. Caches, memory stalls and the mix of
//! instructions are not modelled: the figures order programs by their work, and prove nothing about
//! speed. A device's `slow` option multiplies every time.

use crate::config::profile::{Profile, Rates};

/// Nanoseconds of any copy over the link, before its bytes.
const COPY_LATENCY: u64 = 8_000;
/// Nanoseconds of any copy or set within the device.
const DEVICE_LATENCY: u64 = 3_000;
/// Nanoseconds from a launch to its first instruction.
const LAUNCH_LATENCY: u64 = 4_000;
/// Cycles from an instruction to the next that needs its result.
const DEPENDENT_CYCLES: u64 = 4;

/// Nanoseconds that a copy between host and device takes.
pub fn copy(rates: &Rates, bytes: u64, pinned: bool) -> u64 {
    COPY_LATENCY + over(bytes, if pinned { rates.pinned } else { rates.pageable })
}

/// Nanoseconds that a set (`touched` = bytes) or a copy within the device (twice that) takes.
pub fn within(rates: &Rates, touched: u64) -> u64 {
    DEVICE_LATENCY + over(touched, rates.memory)
}

/// Nanoseconds that a copy from one device to another takes, at the slower one's rate.
pub fn between(rate: u64, bytes: u64) -> u64 {
    COPY_LATENCY + over(bytes, rate)
}

fn over(bytes: u64, per_microsecond: u64) -> u64 {
    (u128::from(bytes) * 1000 / u128::from(per_microsecond)) as u64
}

/// What a kernel did.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct KernelWork {
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks that a multiprocessor holds at once; 0 counts as 1.
    pub resident: u32,
    /// Instructions of all threads.
    pub operations: u64,
    /// Instructions of the longest thread.
    pub longest: u64,
}

/// Nanoseconds that a kernel takes on so many multiprocessors.
pub fn kernel(profile: &Profile, multiprocessors: u32, work: &KernelWork) -> u64 {
    let busy = work.blocks.clamp(1, multiprocessors.into());
    let throughput = work.operations / (busy * u64::from(profile.lanes_per_multiprocessor));
    let latency = work
        .longest
        .saturating_mul(DEPENDENT_CYCLES)
        .saturating_mul(waves(multiprocessors, work));
    let cycles = throughput.max(latency);
    LAUNCH_LATENCY + (u128::from(cycles) * 1_000_000 / u128::from(profile.clock_khz)) as u64
}

/// How often so many multiprocessors take blocks of a kernel, as many as they hold each time.
pub fn waves(multiprocessors: u32, work: &KernelWork) -> u64 {
    let held = u64::from(multiprocessors) * u64::from(work.resident.max(1));
    work.blocks.div_ceil(held.max(1))
}

/// Warps of the device that a kernel occupies: at most what so many multiprocessors hold.
pub fn warps(profile: &Profile, multiprocessors: u32, work: &KernelWork) -> u64 {
    let warps = u64::from(work.threads.div_ceil(profile.warp)).max(1);
    let held = u64::from(work.resident.max(1)) * u64::from(multiprocessors);
    (work.blocks.min(held) * warps).clamp(1, profile.warps_of(multiprocessors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::profiles::{P100, STANDARD};

    #[test]
    fn copies_take_latency_and_bytes() {
        let rates = &STANDARD.rates;
        assert_eq!(copy(rates, 0, true), COPY_LATENCY);
        assert_eq!(copy(rates, 55_000_000_000, true), COPY_LATENCY + 1_000_000_000);
        assert!(copy(rates, 1 << 30, false) > 5 * copy(rates, 1 << 30, true));
        assert!(copy(&P100.rates, 1 << 30, true) > 3 * copy(rates, 1 << 30, true));
        assert!(within(&P100.rates, 1 << 30) > 6 * within(rates, 1 << 30));
    }

    #[test]
    fn kernels_take_the_longer_of_throughput_and_latency() {
        let wide = KernelWork {
            blocks: 132_000,
            threads: 256,
            resident: 8,
            operations: 132_000 * 256 * 100,
            longest: 100,
        };
        let narrow = KernelWork {
            blocks: 1,
            threads: 1,
            resident: 8,
            operations: 1_000_000,
            longest: 1_000_000,
        };
        let wide_cycles = 132_000 * 256 * 100 / (132 * 128);
        assert_eq!(
            kernel(&STANDARD, 132, &wide),
            LAUNCH_LATENCY + wide_cycles * 1_000_000 / 1_980_000
        );
        assert_eq!(
            kernel(&STANDARD, 132, &narrow),
            LAUNCH_LATENCY + 4_000_000_000_000 / 1_980_000
        );
        assert_eq!(warps(&STANDARD, 132, &wide), 8448);
        assert_eq!(warps(&STANDARD, 132, &narrow), 1);
        // On half of the multiprocessors it takes twice as long, and occupies half.
        let twice = 2 * (kernel(&STANDARD, 132, &wide) - LAUNCH_LATENCY);
        assert!((twice - 2..=twice + 2).contains(&(kernel(&STANDARD, 66, &wide) - LAUNCH_LATENCY)));
        assert_eq!(warps(&STANDARD, 66, &wide), 4224);
        assert_eq!([132, 66].map(|number| waves(number, &wide)), [125, 250]);
        assert_eq!(waves(8, &narrow), 1);
    }
}
