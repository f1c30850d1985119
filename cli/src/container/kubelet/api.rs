//! What a kubelet and a device plugin say to each other: version v1beta1 of Kubernetes' interface, in so far
//! as it is used. Other fields are skipped as they are read.

use std::collections::HashMap;

use prost::Message;

/// The version of the interface.
pub const VERSION: &str = "v1beta1";
/// A device that may be given out,
pub const HEALTHY: &str = "Healthy";
/// and one that may not.
pub const UNHEALTHY: &str = "Unhealthy";

/// A request or an answer that says nothing.
#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// What a plugin wants to be asked beside.
#[derive(Clone, PartialEq, Message)]
pub struct DevicePluginOptions {
    /// Whether it is to be told before a container starts.
    #[prost(bool, tag = "1")]
    pub pre_start_required: bool,
    /// Whether it has a say in which devices are given.
    #[prost(bool, tag = "2")]
    pub get_preferred_allocation_available: bool,
}

/// A plugin makes itself known.
#[derive(Clone, PartialEq, Message)]
pub struct RegisterRequest {
    /// That of the interface.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Name of the plugin's socket, in the kubelet's folder.
    #[prost(string, tag = "2")]
    pub endpoint: String,
    /// What pods ask for.
    #[prost(string, tag = "3")]
    pub resource_name: String,
    /// What it wants to be asked beside.
    #[prost(message, optional, tag = "4")]
    pub options: Option<DevicePluginOptions>,
}

/// All devices of the plugin, as they are now.
#[derive(Clone, PartialEq, Message)]
pub struct ListAndWatchResponse {
    /// The devices, in any order.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<PluginDevice>,
}

/// One device of the plugin.
#[derive(Clone, PartialEq, Message)]
pub struct PluginDevice {
    /// At most 63 characters.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Whether it may be given out: [`HEALTHY`] or [`UNHEALTHY`].
    #[prost(string, tag = "2")]
    pub health: String,
}

/// Devices for the containers of a pod.
#[derive(Clone, PartialEq, Message)]
pub struct AllocateRequest {
    /// One for each container.
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerAllocateRequest>,
}

/// Devices for a container.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerAllocateRequest {
    /// Which ones it is given.
    #[prost(string, repeated, tag = "1")]
    pub devices_ids: Vec<String>,
}

/// What the containers of a pod get.
#[derive(Clone, PartialEq, Message)]
pub struct AllocateResponse {
    /// One for each container, in the order of the request.
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerAllocateResponse>,
}

/// What a container gets.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerAllocateResponse {
    /// Variables of its environment.
    #[prost(map = "string, string", tag = "1")]
    pub envs: HashMap<String, String>,
    /// Devices that the container engine knows.
    #[prost(message, repeated, tag = "5")]
    pub cdi_devices: Vec<CdiDevice>,
}

/// A device of the Container Device Interface.
#[derive(Clone, PartialEq, Message)]
pub struct CdiDevice {
    /// Its full name, such as `mgb.dev/node=default`.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Asked of plugins that have a say alone.
#[derive(Clone, PartialEq, Message)]
pub struct PreferredAllocationRequest {}

/// The answer to [`PreferredAllocationRequest`].
#[derive(Clone, PartialEq, Message)]
pub struct PreferredAllocationResponse {}

/// Asked of plugins that are to be told alone.
#[derive(Clone, PartialEq, Message)]
pub struct PreStartContainerRequest {}

/// The answer to [`PreStartContainerRequest`].
#[derive(Clone, PartialEq, Message)]
pub struct PreStartContainerResponse {}
