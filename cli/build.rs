//! Notes what the program is built from, and writes the services by which it speaks with a kubelet.

#[path = "../tools/version.rs"]
mod version;

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

/// Where the messages are.
const MESSAGES: &str = "crate::container::kubelet::api";

fn main() {
    version::set();
    let registration = Service::builder()
        .name("Registration")
        .package("v1beta1")
        .method(method("Register", "RegisterRequest", "Empty").build())
        .build();
    let plugin = Service::builder()
        .name("DevicePlugin")
        .package("v1beta1")
        .method(method("GetDevicePluginOptions", "Empty", "DevicePluginOptions").build())
        .method(
            method("ListAndWatch", "Empty", "ListAndWatchResponse")
                .server_streaming()
                .build(),
        )
        .method(
            method(
                "GetPreferredAllocation",
                "PreferredAllocationRequest",
                "PreferredAllocationResponse",
            )
            .build(),
        )
        .method(method("Allocate", "AllocateRequest", "AllocateResponse").build())
        .method(
            method(
                "PreStartContainer",
                "PreStartContainerRequest",
                "PreStartContainerResponse",
            )
            .build(),
        )
        .build();
    Builder::new().build_server(false).compile(&[registration]);
    Builder::new().build_client(false).compile(&[plugin]);
}

fn method(route: &str, input: &str, output: &str) -> MethodBuilder {
    let mut name = String::new();
    for letter in route.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type(format!("{MESSAGES}::{input}"))
        .output_type(format!("{MESSAGES}::{output}"))
        .codec_path("tonic_prost::ProstCodec")
}
