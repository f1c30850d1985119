//! Looking at mgbd for long: it may be replaced meanwhile.

use std::path::{Path, PathBuf};

use anyhow::Result;
use mgb_probe::view::NodeView;
use mgb_probe::{Client, ConnectError};

/// Looks at the mgbd of a socket, whichever that is at the moment.
pub struct MgbdWatch {
    socket: PathBuf,
    client: Client,
}

impl MgbdWatch {
    /// Connects.
    ///
    /// # Errors
    /// Nobody answers there.
    pub fn begin(socket: &Path) -> Result<MgbdWatch, ConnectError> {
        Ok(MgbdWatch {
            socket: socket.to_owned(),
            client: Client::observe(socket)?,
        })
    }

    /// The node as mgbd sees it now.
    ///
    /// # Errors
    /// There is no mgbd any more, or its view cannot be read at the moment.
    pub fn status(&mut self) -> Result<NodeView> {
        if !self.client.is_connected() {
            self.client = Client::observe(&self.socket)?;
        }
        Ok(self.client.status()?)
    }
}
