//! What the kubelet is answered.

use std::pin::Pin;

use tokio::sync::watch::Receiver;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

use super::api::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateResponse, DevicePluginOptions, Empty,
    ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse,
};
use super::services::DevicePlugin;
use super::units::Units;

/// The plugin, for one connection of the kubelet's or several.
#[derive(Clone, Debug)]
pub struct MemoryPlugin {
    /// The node, as it was last seen.
    pub units: Receiver<Units>,
    /// The devices of the container engine that a container gets, whatever number of units it has.
    pub cdi_devices: Vec<String>,
}

#[tonic::async_trait]
impl DevicePlugin for MemoryPlugin {
    type ListAndWatchStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(DevicePluginOptions::default()))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        // The first is the list of now; each that follows differs from the one before.
        let lists = WatchStream::new(self.units.clone()).map(|units| {
            Ok(ListAndWatchResponse {
                devices: units.devices(),
            })
        });
        Ok(Response::new(Box::pin(lists)))
    }

    async fn get_preferred_allocation(
        &self,
        _: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        Err(Status::unimplemented("all units are alike: mgbd places programs"))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let requests = request.into_inner().container_requests;
        let units = self.units.borrow().clone();
        let mut ids = requests.iter().flat_map(|container| &container.devices_ids);
        if let Some(unknown) = ids.find(|id| !units.has(id)) {
            return Err(Status::not_found(format!(
                "this node has no unit {unknown} of GPU memory"
            )));
        }
        let each = |_| ContainerAllocateResponse {
            cdi_devices: self
                .cdi_devices
                .iter()
                .map(|name| CdiDevice { name: name.clone() })
                .collect(),
            ..ContainerAllocateResponse::default()
        };
        Ok(Response::new(AllocateResponse {
            container_responses: requests.iter().map(each).collect(),
        }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse::default()))
    }
}
