//! Where memory lies: a device, or the host.

/// `cudaMemLocation` and `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemLocation {
    /// `cudaMemLocationType`.
    pub kind: i32,
    /// Ordinal of the device or number of the NUMA node.
    pub id: i32,
}

/// `cudaMemLocationTypeInvalid`.
pub const LOCATION_INVALID: i32 = 0;
/// `cudaMemLocationTypeDevice`.
pub const LOCATION_DEVICE: i32 = 1;
/// `cudaMemLocationTypeHost`.
pub const LOCATION_HOST: i32 = 2;
/// `cudaMemLocationTypeHostNuma`.
pub const LOCATION_HOST_NUMA: i32 = 3;
/// `cudaMemLocationTypeHostNumaCurrent`.
pub const LOCATION_HOST_NUMA_CURRENT: i32 = 4;

/// `cudaCpuDeviceId`: the host, where a function takes a device.
pub const CPU_DEVICE_ID: i32 = -1;
/// `cudaInvalidDeviceId`.
pub const INVALID_DEVICE_ID: i32 = -2;

impl MemLocation {
    /// No location: `cudaMemLocationTypeInvalid`.
    pub const INVALID: MemLocation = MemLocation {
        kind: LOCATION_INVALID,
        id: 0,
    };

    /// The memory of a device.
    pub const fn device(ordinal: i32) -> MemLocation {
        MemLocation {
            kind: LOCATION_DEVICE,
            id: ordinal,
        }
    }

    /// The host's memory, on any NUMA node.
    pub const fn host() -> MemLocation {
        MemLocation {
            kind: LOCATION_HOST,
            id: 0,
        }
    }
}

const _: () = assert!(size_of::<MemLocation>() == 8);
