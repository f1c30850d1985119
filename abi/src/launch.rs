//! Kernel launches: grids, configurations and their attributes.

use core::ffi::{c_int, c_void};

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Dim3 {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

impl Dim3 {
    /// No block and no thread: no launch has such a grid.
    pub const EMPTY: Dim3 = Dim3 { x: 0, y: 0, z: 0 };

    /// The three numbers as an array.
    pub fn array(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }

    /// Blocks of a grid or threads of a block, at most `u64::MAX`.
    pub fn product(self) -> u64 {
        let [x, y, z] = self.array().map(u64::from);
        x.saturating_mul(y).saturating_mul(z)
    }
}

/// `cudaLaunchConfig_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Blocks of the grid.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Bytes of dynamic shared memory.
    pub shared: usize,
    /// `cudaStream_t`.
    pub stream: *mut c_void,
    /// So many attributes.
    pub attributes: *mut LaunchAttribute,
    /// Number of attributes.
    pub count: u32,
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DriverLaunchConfig {
    /// Blocks of the grid.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// `CUstream`.
    pub stream: usize,
    /// So many attributes, the same as the runtime's.
    pub attributes: *mut LaunchAttribute,
    /// Number of attributes.
    pub count: u32,
}

/// `cudaLaunchAttribute`, `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchAttribute {
    /// `cudaLaunchAttributeID`.
    pub id: u32,
    /// What the identifier asks for.
    pub value: LaunchAttributeValue,
}

/// `cudaLaunchAttributeValue`, a union of 64 bytes, as words.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchAttributeValue(pub [u32; 16]);

impl LaunchAttributeValue {
    /// The event of the attributes that have one: it is their first member.
    pub fn event(&self) -> *mut c_void {
        (self.0[0] as usize | (self.0[1] as usize) << 32) as *mut c_void
    }

    /// The same value with another event.
    pub fn with_event(mut self, event: *mut c_void) -> LaunchAttributeValue {
        self.0[0] = event as usize as u32;
        self.0[1] = (event as usize >> 32) as u32;
        self
    }
}

/// `cudaLaunchAttributeAccessPolicyWindow`.
pub const ATTRIBUTE_ACCESS_POLICY_WINDOW: u32 = 1;
/// `cudaLaunchAttributeCooperative`.
pub const ATTRIBUTE_COOPERATIVE: u32 = 2;
/// `cudaLaunchAttributeSynchronizationPolicy`.
pub const ATTRIBUTE_SYNCHRONIZATION_POLICY: u32 = 3;
/// `cudaLaunchAttributeClusterDimension`.
pub const ATTRIBUTE_CLUSTER_DIMENSION: u32 = 4;
/// `cudaLaunchAttributeProgrammaticEvent`.
pub const ATTRIBUTE_PROGRAMMATIC_EVENT: u32 = 7;
/// `cudaLaunchAttributePriority`.
pub const ATTRIBUTE_PRIORITY: u32 = 8;
/// `cudaLaunchAttributeMemSyncDomainMap`.
pub const ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: u32 = 9;
/// `cudaLaunchAttributeMemSyncDomain`.
pub const ATTRIBUTE_MEM_SYNC_DOMAIN: u32 = 10;
/// `cudaLaunchAttributeLaunchCompletionEvent`.
pub const ATTRIBUTE_LAUNCH_COMPLETION_EVENT: u32 = 12;

/// `cudaFuncAttributeMaxDynamicSharedMemorySize`.
pub const FUNC_MAX_DYNAMIC_SHARED_MEMORY_SIZE: u32 = 8;
/// `cudaFuncAttributePreferredSharedMemoryCarveout`.
pub const FUNC_PREFERRED_SHARED_MEMORY_CARVEOUT: u32 = 9;

/// `cudaFuncCachePreferEqual`, the last of the preferences for the L1 cache.
pub const FUNC_CACHE_PREFER_EQUAL: u32 = 3;

/// `cudaFuncAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct FuncAttributes {
    pub shared_size_bytes: usize,
    pub const_size_bytes: usize,
    pub local_size_bytes: usize,
    pub max_threads_per_block: c_int,
    pub num_regs: c_int,
    pub ptx_version: c_int,
    pub binary_version: c_int,
    pub cache_mode_ca: c_int,
    pub max_dynamic_shared_size_bytes: c_int,
    pub preferred_shmem_carveout: c_int,
    pub cluster_dim_must_be_set: c_int,
    pub required_cluster: [c_int; 3],
    pub cluster_scheduling_policy_preference: c_int,
    pub non_portable_cluster_size_allowed: c_int,
    pub reserved: [c_int; 16],
}

const _: () = {
    assert!(size_of::<Dim3>() == 12);
    assert!(size_of::<LaunchConfig>() == 56);
    assert!(size_of::<DriverLaunchConfig>() == 56);
    assert!(size_of::<LaunchAttributeValue>() == 64 && align_of::<LaunchAttributeValue>() == 8);
    assert!(size_of::<LaunchAttribute>() == 72);
    assert!(size_of::<FuncAttributes>() == 144 && core::mem::offset_of!(FuncAttributes, reserved) == 76);
};
