//! The plugin's place with the kubelet: its socket in the kubelet's folder, for as long as that kubelet runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use mgb_interface::folders::file_at;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Endpoint, Server};

use super::api::{DevicePluginOptions, RegisterRequest, VERSION};
use super::plugin::MemoryPlugin;
use super::services::{DevicePluginServer, RegistrationClient};
use crate::stale_socket::clear_stale;

/// Name of the plugin's socket.
const ENDPOINT: &str = "mgb.sock";
/// Name of the kubelet's.
const KUBELET: &str = "kubelet.sock";
/// How often it is looked whether the kubelet is another one.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long until a plugin that was turned away tries again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// How long a kubelet may take to answer.
const KUBELET_TIMEOUT: Duration = Duration::from_secs(10);

/// A plugin and the folder of its kubelet.
#[derive(Debug)]
pub struct Place {
    /// The kubelet's folder for plugins.
    pub folder: PathBuf,
    /// What pods ask for.
    pub resource: String,
    /// What answers the kubelet.
    pub plugin: MemoryPlugin,
}

impl Place {
    /// Serves each kubelet that comes, one after the other; never returns. Who drops it ends that.
    pub async fn serve(&self) {
        let mut told = String::new();
        loop {
            let failed = match self.serve_one(&mut told).await {
                Ok(()) => continue,
                Err(error) => format!("{error:#}"),
            };
            if told != failed {
                mgb_command::tell!("mgb container kubelet: {failed}");
                told = failed;
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// Until the kubelet is another one.
    async fn serve_one(&self, told: &mut String) -> Result<()> {
        let kubelet = self.folder.join(KUBELET);
        let Some(identity) = file_at(&kubelet) else {
            return Err(anyhow!("waits for a kubelet at {}", kubelet.display()));
        };
        let socket = OwnSocket::listen(self.folder.join(ENDPOINT))?;
        let mut serving = socket.serve(self.plugin.clone())?;
        let registered = timeout(KUBELET_TIMEOUT, self.register(&kubelet)).await;
        registered.unwrap_or_else(|_| Err(anyhow!("the kubelet does not answer")))?;
        mgb_command::tell!("mgb container kubelet: pods get {} of this node", self.resource);
        told.clear();
        // A kubelet that starts removes all sockets in its folder, and makes its own anew.
        while file_at(&kubelet) == Some(identity) && socket.is_there() && serving.try_join_next().is_none() {
            sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    async fn register(&self, kubelet: &Path) -> Result<()> {
        let address = format!("unix://{}", kubelet.display());
        let channel = Endpoint::from_shared(address)
            .with_context(|| format!("{} is no address", kubelet.display()))?
            .connect()
            .await
            .with_context(|| format!("failed to connect to the kubelet at {}", kubelet.display()))?;
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: ENDPOINT.to_owned(),
            resource_name: self.resource.clone(),
            options: Some(DevicePluginOptions::default()),
        };
        let answered = RegistrationClient::new(channel).register(request).await;
        answered.map(drop).map_err(|refused| {
            anyhow!(
                "the kubelet refuses {}: {} ({})",
                self.resource,
                refused.message(),
                refused.code()
            )
        })
    }
}

/// The plugin's socket, which goes with it.
struct OwnSocket {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    listener: std::os::unix::net::UnixListener,
}

impl OwnSocket {
    fn listen(path: PathBuf) -> Result<OwnSocket> {
        let failed = || format!("failed to listen at {}", path.display());
        // One that ended without doing so has left it.
        clear_stale(&path).with_context(failed)?;
        let listener = std::os::unix::net::UnixListener::bind(&path).with_context(failed)?;
        listener.set_nonblocking(true).with_context(failed)?;
        Ok(OwnSocket {
            identity: file_at(&path),
            path,
            listener,
        })
    }

    fn is_there(&self) -> bool {
        file_at(&self.path) == self.identity
    }

    fn serve(&self, plugin: MemoryPlugin) -> Result<JoinSet<Result<(), tonic::transport::Error>>> {
        let listener = self.listener.try_clone().and_then(UnixListener::from_std);
        let incoming = UnixListenerStream::new(listener.context("failed to watch the plugin's socket")?);
        let server = Server::builder().add_service(DevicePluginServer::new(plugin));
        // Dropped, the set ends what is in it.
        let mut serving = JoinSet::new();
        serving.spawn(server.serve_with_incoming(incoming));
        Ok(serving)
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        // Another's by now, or gone: it is none of this plugin's.
        if self.identity.is_some() && self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
