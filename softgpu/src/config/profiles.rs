//! The kinds of devices that `SOFTGPU_DEVICES` can name.
//!
//! Where the figures are from: limits per compute capability from the table of technical specifications in
//! NVIDIA's CUDA C++ Programming Guide and from the occupancy rules of its best-practices and tuning guides;
//! multiprocessors, clocks, caches, memory and links from the whitepapers "NVIDIA Tesla P100", "NVIDIA Tesla
//! V100 GPU Architecture", "NVIDIA A100 Tensor Core GPU Architecture" and "NVIDIA H100 Tensor Core GPU
//! Architecture", and from the H200's data sheet: the SXM form of each.
//!
//! The model's rates are what programs see, not what data sheets say. They were measured on H200s, and are
//! scaled to the others by their data sheets: of the memory's bandwidth five sixths; 55 GB/s of PCI Express
//! 5's 64, so 7/8 of each generation; pageable copies at 9.6 GB/s, since the host's own copying bounds them;
//! of NVLink's bandwidth in one direction five sixths.

use super::profile::{Profile, Rates};

const GIB: u64 = 1 << 30;

/// Pageable copies, which the host bounds.
const PAGEABLE: u64 = 9_600;

/// An H200-like device of compute capability 9.0 with as much memory as its specification says: what devices
/// are when no kind is named.
pub const STANDARD: Profile = Profile {
    key: "",
    name: "MGB Software GPU (sm_90)",
    major: 9,
    minor: 0,
    memory: 4 * GIB,
    multiprocessors: 132,
    lanes_per_multiprocessor: 128,
    double_ratio: 2,
    partitions: 4,
    clock_khz: 1_980_000,
    memory_clock_khz: 3_201_000,
    memory_bus_bits: 6144,
    l2_bytes: 60 << 20,
    copy_engines: 3,
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
    shared_unit: 128,
    constant_bytes: 64 << 10,
    rates: Rates {
        memory: 4_000_000,
        pinned: 55_000,
        pageable: PAGEABLE,
        peer: 375_000,
    },
};

/// Pascal: HBM2 at 732 GB/s, PCI Express 3, four links of NVLink 1 (80 GB/s).
pub const P100: Profile = Profile {
    key: "P100",
    name: "MGB Software GPU (P100, sm_60)",
    major: 6,
    minor: 0,
    memory: 16 * GIB,
    multiprocessors: 56,
    lanes_per_multiprocessor: 64,
    partitions: 2,
    clock_khz: 1_480_500,
    memory_clock_khz: 715_000,
    memory_bus_bits: 4096,
    l2_bytes: 4 << 20,
    copy_engines: 2,
    shared_per_multiprocessor: 64 << 10,
    shared_per_block_optin: 48 << 10,
    shared_reserved: 0,
    shared_unit: 256,
    rates: Rates {
        memory: 610_000,
        pinned: 13_800,
        pageable: PAGEABLE,
        peer: 66_000,
    },
    ..STANDARD
};

/// Volta: HBM2 at 900 GB/s, PCI Express 3, six links of NVLink 2 (150 GB/s).
pub const V100: Profile = Profile {
    key: "V100",
    name: "MGB Software GPU (V100, sm_70)",
    major: 7,
    minor: 0,
    memory: 16 * GIB,
    multiprocessors: 80,
    lanes_per_multiprocessor: 64,
    clock_khz: 1_530_000,
    memory_clock_khz: 877_000,
    memory_bus_bits: 4096,
    l2_bytes: 6 << 20,
    copy_engines: 6,
    shared_per_multiprocessor: 96 << 10,
    shared_per_block_optin: 96 << 10,
    shared_reserved: 0,
    shared_unit: 256,
    rates: Rates {
        memory: 750_000,
        pinned: 13_800,
        pageable: PAGEABLE,
        peer: 125_000,
    },
    ..STANDARD
};

/// Ampere: HBM2 at 1,555 GB/s, PCI Express 4, twelve links of NVLink 3 (300 GB/s).
pub const A100: Profile = Profile {
    key: "A100",
    name: "MGB Software GPU (A100, sm_80)",
    major: 8,
    minor: 0,
    memory: 40 * GIB,
    multiprocessors: 108,
    lanes_per_multiprocessor: 64,
    clock_khz: 1_410_000,
    memory_clock_khz: 1_215_000,
    memory_bus_bits: 5120,
    l2_bytes: 40 << 20,
    shared_per_multiprocessor: 164 << 10,
    shared_per_block_optin: 163 << 10,
    rates: Rates {
        memory: 1_296_000,
        pinned: 27_500,
        pageable: PAGEABLE,
        peer: 250_000,
    },
    ..STANDARD
};

/// Hopper: HBM3 at 3,350 GB/s, PCI Express 5, eighteen links of NVLink 4 (450 GB/s).
pub const H100: Profile = Profile {
    key: "H100",
    name: "MGB Software GPU (H100, sm_90)",
    memory: 80 * GIB,
    memory_clock_khz: 2_619_000,
    memory_bus_bits: 5120,
    l2_bytes: 50 << 20,
    rates: Rates {
        memory: 2_792_000,
        ..STANDARD.rates
    },
    ..STANDARD
};

/// Hopper with HBM3e at 4,800 GB/s; its memory is what NVML shows on one.
pub const H200: Profile = Profile {
    key: "H200",
    name: "MGB Software GPU (H200, sm_90)",
    memory: 143_771 << 20,
    ..STANDARD
};

/// All that can be named.
pub static NAMED: [&Profile; 5] = [&P100, &V100, &A100, &H100, &H200];

/// The standard one, where a reference to one for ever is needed.
pub static DEFAULT: &Profile = &STANDARD;

/// The kind of this name.
pub fn by_name(name: &str) -> Option<&'static Profile> {
    NAMED
        .into_iter()
        .find(|profile| profile.key.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name_and_none_by_others() {
        for profile in NAMED {
            assert_eq!(by_name(profile.key), Some(profile));
            assert_eq!(by_name(&profile.key.to_lowercase()), Some(profile));
            assert!(profile.name.contains(profile.key), "{}", profile.name);
        }
        assert_eq!(by_name("K80"), None);
        assert_eq!(by_name(""), None);
    }

    #[test]
    fn figures_agree_with_each_other() {
        for profile in NAMED.into_iter().chain([DEFAULT]) {
            let Profile { name, rates, .. } = *profile;
            assert!(
                name.contains(&format!("sm_{}{}", profile.major, profile.minor)),
                "{name}"
            );
            assert!(
                profile.shared_per_block <= profile.shared_per_block_optin,
                "{name}"
            );
            assert!(
                profile.shared_per_block_optin + profile.shared_reserved <= profile.shared_per_multiprocessor,
                "{name}"
            );
            // Two transfers per clock over the bus; the model's rate is five sixths of that, within what data
            // sheets round.
            let peak =
                u64::from(profile.memory_clock_khz) * 2 * u64::from(profile.memory_bus_bits) / 8 / 1000;
            assert!(
                rates.memory * 100 / peak >= 80 && rates.memory * 100 / peak <= 86,
                "{name}"
            );
            assert!(
                rates.pageable <= rates.pinned && rates.pinned < rates.peer && rates.peer < rates.memory,
                "{name}"
            );
            for threads in 1..=profile.block_threads {
                assert!(
                    profile.blocks_resident(threads, profile.most_registers(threads), 0) > 0,
                    "{name} {threads}"
                );
            }
        }
    }
}
