//! Properties and attributes of a device, as the runtime and the driver tell them.

use std::ffi::{c_char, c_int, c_uint};

use super::gpu::Gpu;
use super::profile;
use crate::time::settings::settings;

/// `cudaDeviceProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct DeviceProp {
    pub name: [c_char; 256],
    pub uuid: [u8; 16],
    pub luid: [c_char; 8],
    pub luid_device_node_mask: c_uint,
    pub total_global_mem: usize,
    pub shared_mem_per_block: usize,
    pub regs_per_block: c_int,
    pub warp_size: c_int,
    pub mem_pitch: usize,
    pub max_threads_per_block: c_int,
    pub max_threads_dim: [c_int; 3],
    pub max_grid_size: [c_int; 3],
    pub total_const_mem: usize,
    pub major: c_int,
    pub minor: c_int,
    pub texture_alignment: usize,
    pub texture_pitch_alignment: usize,
    pub multi_processor_count: c_int,
    pub integrated: c_int,
    pub can_map_host_memory: c_int,
    pub max_texture1d: c_int,
    pub max_texture1d_mipmap: c_int,
    pub max_texture2d: [c_int; 2],
    pub max_texture2d_mipmap: [c_int; 2],
    pub max_texture2d_linear: [c_int; 3],
    pub max_texture2d_gather: [c_int; 2],
    pub max_texture3d: [c_int; 3],
    pub max_texture3d_alt: [c_int; 3],
    pub max_texture_cubemap: c_int,
    pub max_texture1d_layered: [c_int; 2],
    pub max_texture2d_layered: [c_int; 3],
    pub max_texture_cubemap_layered: [c_int; 2],
    pub max_surface1d: c_int,
    pub max_surface2d: [c_int; 2],
    pub max_surface3d: [c_int; 3],
    pub max_surface1d_layered: [c_int; 2],
    pub max_surface2d_layered: [c_int; 3],
    pub max_surface_cubemap: c_int,
    pub max_surface_cubemap_layered: [c_int; 2],
    pub surface_alignment: usize,
    pub concurrent_kernels: c_int,
    pub ecc_enabled: c_int,
    pub pci_bus_id: c_int,
    pub pci_device_id: c_int,
    pub pci_domain_id: c_int,
    pub tcc_driver: c_int,
    pub async_engine_count: c_int,
    pub unified_addressing: c_int,
    pub memory_bus_width: c_int,
    pub l2_cache_size: c_int,
    pub persisting_l2_cache_max_size: c_int,
    pub max_threads_per_multi_processor: c_int,
    pub stream_priorities_supported: c_int,
    pub global_l1_cache_supported: c_int,
    pub local_l1_cache_supported: c_int,
    pub shared_mem_per_multiprocessor: usize,
    pub regs_per_multiprocessor: c_int,
    pub managed_memory: c_int,
    pub is_multi_gpu_board: c_int,
    pub multi_gpu_board_group_id: c_int,
    pub host_native_atomic_supported: c_int,
    pub pageable_memory_access: c_int,
    pub concurrent_managed_access: c_int,
    pub compute_preemption_supported: c_int,
    pub can_use_host_pointer_for_registered_mem: c_int,
    pub cooperative_launch: c_int,
    pub shared_mem_per_block_optin: usize,
    pub pageable_memory_access_uses_host_page_tables: c_int,
    pub direct_managed_mem_access_from_host: c_int,
    pub max_blocks_per_multi_processor: c_int,
    pub access_policy_max_window_size: c_int,
    pub reserved_shared_mem_per_block: usize,
    pub host_register_supported: c_int,
    pub sparse_cuda_array_supported: c_int,
    pub host_register_read_only_supported: c_int,
    pub timeline_semaphore_interop_supported: c_int,
    pub memory_pools_supported: c_int,
    pub gpu_direct_rdma_supported: c_int,
    pub gpu_direct_rdma_flush_writes_options: c_uint,
    pub gpu_direct_rdma_writes_ordering: c_int,
    pub memory_pool_supported_handle_types: c_uint,
    pub deferred_mapping_cuda_array_supported: c_int,
    pub ipc_event_supported: c_int,
    pub cluster_launch: c_int,
    pub unified_function_pointers: c_int,
    pub device_numa_config: c_int,
    pub device_numa_id: c_int,
    pub mps_enabled: c_int,
    pub host_numa_id: c_int,
    pub gpu_pci_device_id: c_uint,
    pub gpu_pci_subsystem_id: c_uint,
    pub host_numa_multinode_ipc_supported: c_int,
    pub reserved: [c_int; 56],
}

/// A device's place on the bus that it would be on: `0000:01:00.0` for the first.
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
    all.surface_alignment = 512;
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
        14 => 512,
        51 => 32,
        16 => profile.multiprocessors,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<DeviceProp>(), 1008);
        assert_eq!(offset_of!(DeviceProp, shared_mem_per_block_optin), 672);
        assert_eq!(offset_of!(DeviceProp, mps_enabled), 764);
    }
}
