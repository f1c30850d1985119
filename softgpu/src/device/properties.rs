//! Properties and attributes of a device, as the runtime and the driver report them.

use std::ffi::{c_char, c_int};

use mgb_abi::properties::DeviceProp;

use super::gpu::Gpu;
use crate::config::{profile, textures};
use crate::time::mps_client::mps_client;
use crate::time::settings::settings;

/// A device's address on the bus that it would be on: `0000:01:00.0` for the first.
pub fn pci_bus_id(gpu: &Gpu) -> String {
    format!("0000:{:02x}:00.0", gpu.index + 1)
}

/// All properties of a device.
pub fn of(gpu: &Gpu) -> DeviceProp {
    // SAFETY: `DeviceProp` is integers and arrays of them, for which zero is a value.
    let mut all: DeviceProp = unsafe { std::mem::zeroed() };
    for (to, &from) in all.name.iter_mut().zip(gpu.profile().name.as_bytes()) {
        *to = from as c_char;
    }
    let value = |number: i32| attribute(gpu, number).unwrap_or(0);
    all.uuid = profile::uuid(gpu.index);
    all.total_global_mem = gpu.spec.memory as usize;
    all.shared_mem_per_block = value(8) as usize;
    all.regs_per_block = value(12);
    all.warp_size = value(10);
    all.mem_pitch = value(11) as usize;
    all.max_threads_per_block = value(1);
    all.max_threads_dim = [value(2), value(3), value(4)];
    all.max_grid_size = [value(5), value(6), value(7)];
    all.total_const_mem = value(9) as usize;
    all.major = value(75);
    all.minor = value(76);
    all.texture_alignment = value(14) as usize;
    all.texture_pitch_alignment = value(51) as usize;
    all.surface_alignment = textures::ALIGNMENT;
    all.max_texture1d = value(21);
    all.max_texture2d = [value(22), value(23)];
    all.max_texture2d_linear = [value(70), value(71), value(72)];
    all.max_texture2d_gather = [value(45), value(46)];
    all.max_texture3d = [value(24), value(25), value(26)];
    all.max_texture3d_alt = [value(47), value(48), value(49)];
    all.max_texture_cubemap = value(52);
    all.max_texture1d_layered = [value(42), value(43)];
    all.max_texture2d_layered = [value(27), value(28), value(29)];
    all.max_texture_cubemap_layered = [value(53), value(54)];
    all.max_surface1d = value(55);
    all.max_surface2d = [value(56), value(57)];
    all.max_surface3d = [value(58), value(59), value(60)];
    all.max_surface1d_layered = [value(61), value(62)];
    all.max_surface2d_layered = [value(63), value(64), value(65)];
    all.max_surface_cubemap = value(66);
    all.max_surface_cubemap_layered = [value(67), value(68)];
    all.multi_processor_count = value(16);
    all.can_map_host_memory = value(19);
    all.concurrent_kernels = value(31);
    all.pci_bus_id = value(33);
    all.async_engine_count = value(40);
    all.unified_addressing = value(41);
    all.memory_bus_width = value(37);
    all.l2_cache_size = value(38);
    all.max_threads_per_multi_processor = value(39);
    all.stream_priorities_supported = value(78);
    all.global_l1_cache_supported = value(79);
    all.local_l1_cache_supported = value(80);
    all.shared_mem_per_multiprocessor = value(81) as usize;
    all.regs_per_multiprocessor = value(82);
    all.managed_memory = value(83);
    all.multi_gpu_board_group_id = value(84);
    all.compute_preemption_supported = value(90);
    all.can_use_host_pointer_for_registered_mem = value(91);
    all.cooperative_launch = value(95);
    all.shared_mem_per_block_optin = value(97) as usize;
    all.max_blocks_per_multi_processor = value(106);
    all.reserved_shared_mem_per_block = value(111) as usize;
    all.host_register_supported = value(99);
    all.memory_pools_supported = value(115);
    all.mps_enabled = value(133);
    all.host_numa_id = value(134);
    all
}

/// One attribute, by its number in `cudaDeviceAttr` and `CUdevice_attribute`, which agree. What is
/// not supported is zero; `None`: there is no such attribute.
pub fn attribute(gpu: &Gpu, number: c_int) -> Option<c_int> {
    if let Some(figure) = textures::attribute(number) {
        return Some(figure as c_int);
    }
    let profile = gpu.profile();
    let unsigned = match number {
        1 => profile.block_threads,
        2..=4 => profile.block_dim[number as usize - 2],
        5..=7 => profile.grid_dim[number as usize - 5],
        8 => profile.shared_per_block,
        9 => profile.constant_bytes,
        10 => profile.warp,
        11 => i32::MAX as u32,
        12 | 82 => profile.registers,
        13 => profile.clock_khz,
        16 => mps_client().multiprocessors(profile),
        // Overlap, mapped host memory, concurrent kernels, unified addresses.
        15 | 19 | 31 | 41 => 1,
        33 => gpu.index as u32 + 1,
        36 => profile.memory_clock_khz,
        37 => profile.memory_bus_bits,
        38 => profile.l2_bytes,
        39 => profile.threads_per_multiprocessor,
        40 => profile.copy_engines,
        75 => profile.major as u32,
        76 => profile.minor as u32,
        // Stream priorities, L1 caching, managed memory.
        78..=80 | 83 => 1,
        81 => profile.shared_per_multiprocessor,
        84 => 0,
        85 => gpu.index as u32,
        87 => profile.double_ratio,
        // Preemption, registered host pointers, host registration.
        90 | 91 | 99 => 1,
        95 => 1,
        97 => profile.shared_per_block_optin,
        // Virtual memory management, in the driver's numbering.
        102 => 1,
        106 => profile.blocks_per_multiprocessor,
        111 => profile.shared_reserved,
        115 => 1,
        133 => settings().mps.into(),
        134 => return Some(-1),
        17..=150 => 0,
        _ => return None,
    };
    Some(unsigned as c_int)
}
