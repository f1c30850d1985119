//! A device as all processes of the node see it: its number and its configuration.

use super::profile::Profile;
use super::spec::Spec;

/// One device of the node.
#[derive(Clone, Copy, Debug)]
pub struct DeviceConfig {
    /// Its number on the node.
    pub index: usize,
    /// The configuration of the device.
    pub spec: Spec,
}

impl DeviceConfig {
    /// The model that it claims to be.
    pub fn profile(&self) -> &'static Profile {
        self.spec.profile
    }
}
