//! The services of the interface, which the build script writes.

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod registration {
    include!(concat!(env!("OUT_DIR"), "/v1beta1.Registration.rs"));
}

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod device_plugin {
    include!(concat!(env!("OUT_DIR"), "/v1beta1.DevicePlugin.rs"));
}

pub use device_plugin::device_plugin_server::{DevicePlugin, DevicePluginServer};
pub use registration::registration_client::RegistrationClient;
