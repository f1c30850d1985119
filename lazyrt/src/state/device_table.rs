//! The part of the state about the program's devices.

use mgb_probe::wire::MAX_GPUS;

use super::extent::Key;

/// The state of one device.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceState {
    /// Its lazy task.
    pub lazy: Option<Key>,
    /// The GPU that handles of the runtime tie it to.
    pub anchor: Option<u32>,
    /// The GPU on which its variables have their values.
    pub variables: Option<u32>,
    /// The thread that is asking for the GPU of the device's first static task, or of its variables.
    pub choosing: Option<u64>,
}

/// The state of all devices.
#[derive(Debug)]
pub struct Devices(pub [DeviceState; MAX_GPUS]);

impl Default for Devices {
    fn default() -> Devices {
        Devices([DeviceState::default(); MAX_GPUS])
    }
}
