//! A kubelet that is none: it takes plugins, and asks them what a kubelet asks. It has messages of its own,
//! by the numbers of the interface's fields, so that a wrong one in the plugin shows.

use std::convert::Infallible;
use std::fs;
use std::future::{Ready, ready};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll};
use std::time::Duration;

use prost::Message;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// How long a plugin may take to do what it is to do.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// What a plugin says of itself.
#[derive(Clone, PartialEq, Message)]
pub struct Registered {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(string, tag = "2")]
    pub endpoint: String,
    #[prost(string, tag = "3")]
    pub resource: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Nothing {}

#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, repeated, tag = "1")]
    devices: Vec<Listed>,
}

#[derive(Clone, PartialEq, Message)]
struct Listed {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    health: String,
}

/// Strings within a message within the message: containers and their devices, both ways.
#[derive(Clone, PartialEq, Message)]
struct Containers {
    #[prost(message, repeated, tag = "1")]
    containers: Vec<Ids>,
}

#[derive(Clone, PartialEq, Message)]
struct Ids {
    #[prost(string, repeated, tag = "1")]
    ids: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Given {
    #[prost(message, repeated, tag = "1")]
    containers: Vec<GivenContainer>,
}

#[derive(Clone, PartialEq, Message)]
struct GivenContainer {
    #[prost(message, repeated, tag = "5")]
    devices: Vec<Name>,
}

#[derive(Clone, PartialEq, Message)]
struct Name {
    #[prost(string, tag = "1")]
    name: String,
}

/// What becomes of a plugin that registers.
#[derive(Clone)]
struct Registration {
    registered: Sender<Registered>,
    refuses: bool,
}

impl NamedService for Registration {
    const NAME: &'static str = "v1beta1.Registration";
}

impl Service<http::Request<Body>> for Registration {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            assert_eq!(request.uri().path(), "/v1beta1.Registration/Register");
            let codec = ProstCodec::<Nothing, Registered>::default();
            Ok(tonic::server::Grpc::new(codec).unary(service, request).await)
        })
    }
}

impl UnaryService<Registered> for Registration {
    type Response = Nothing;
    type Future = Ready<Result<Response<Nothing>, Status>>;

    fn call(&mut self, request: Request<Registered>) -> Self::Future {
        // The test may be over.
        let _ = self.registered.send(request.into_inner());
        ready(if self.refuses {
            Err(Status::invalid_argument("not this one"))
        } else {
            Ok(Response::new(Nothing {}))
        })
    }
}

/// A kubelet in a folder.
pub struct FakeKubelet {
    folder: PathBuf,
    runtime: Runtime,
    registered: Receiver<Registered>,
}

impl FakeKubelet {
    /// One that has just started: what it finds in its folder is removed.
    pub fn start(folder: &Path, refuses: bool) -> FakeKubelet {
        fs::create_dir_all(folder).expect("its folder can be made");
        for entry in fs::read_dir(folder).expect("it can be read") {
            fs::remove_file(entry.expect("an entry").path()).expect("it can be removed");
        }
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("threads can be started");
        let (sender, registered) = channel();
        let registration = Registration {
            registered: sender,
            refuses,
        };
        let listener = {
            let _entered = runtime.enter();
            UnixListener::bind(folder.join("kubelet.sock")).expect("it can listen")
        };
        let server = Server::builder().add_service(registration);
        runtime.spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
        FakeKubelet {
            folder: folder.to_owned(),
            runtime,
            registered,
        }
    }

    /// The next plugin that registers.
    pub fn registered(&self) -> Registered {
        self.registered
            .recv_timeout(PLUGIN_TIMEOUT)
            .expect("one registers")
    }

    /// Connects to a plugin, and asks for its devices.
    pub fn plugin(&self, endpoint: &str) -> Plugin<'_> {
        let address = format!("unix://{}", self.folder.join(endpoint).display());
        let endpoint = Endpoint::from_shared(address).expect("an address");
        let channel = self.runtime.block_on(endpoint.connect()).expect("it listens");
        let (sender, lists) = channel_of_lists();
        let mut client = Grpc::new(channel.clone());
        self.runtime.spawn(async move {
            client.ready().await.expect("it is connected");
            let path = PathAndQuery::from_static("/v1beta1.DevicePlugin/ListAndWatch");
            let codec = ProstCodec::<Nothing, List>::default();
            let asked = client.server_streaming(Request::new(Nothing {}), path, codec);
            let mut stream = asked.await.expect("it answers").into_inner();
            while let Ok(Some(list)) = stream.message().await {
                let pairs = list.devices.into_iter().map(|one| (one.id, one.health));
                if sender.send(pairs.collect()).is_err() {
                    return;
                }
            }
        });
        Plugin {
            kubelet: self,
            channel,
            lists,
        }
    }
}

type Devices = Vec<(String, String)>;

fn channel_of_lists() -> (Sender<Devices>, Receiver<Devices>) {
    channel()
}

/// A plugin that has registered.
pub struct Plugin<'a> {
    kubelet: &'a FakeKubelet,
    channel: Channel,
    lists: Receiver<Devices>,
}

impl Plugin<'_> {
    /// The next list of devices: identifiers and their health; none: it says no more.
    pub fn list(&self) -> Option<Devices> {
        match self.lists.recv_timeout(PLUGIN_TIMEOUT) {
            Ok(list) => Some(list),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it says nothing"),
        }
    }

    /// What each container gets that is given these devices: names of the container engine's.
    pub fn allocate(&self, containers: &[&[&str]]) -> Result<Vec<Vec<String>>, Status> {
        let containers = containers.iter().map(|ids| Ids {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        });
        let request = Containers {
            containers: containers.collect(),
        };
        let given: Given = self.ask("/v1beta1.DevicePlugin/Allocate", request)?;
        let names = |container: GivenContainer| container.devices.into_iter().map(|one| one.name).collect();
        Ok(given.containers.into_iter().map(names).collect())
    }

    /// Any question that has one answer.
    pub fn ask<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut client = Grpc::new(self.channel.clone());
        self.kubelet.runtime.block_on(async move {
            client.ready().await.expect("it is connected");
            let path = PathAndQuery::from_static(path);
            let asked = client.unary(Request::new(question), path, ProstCodec::<Q, A>::default());
            Ok(asked.await?.into_inner())
        })
    }
}
