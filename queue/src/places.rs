//! Where the state of a user's queue is, and where its service listens.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The folder that holds the state of the queue, and its socket: see [`QueuePlace`].
pub const QUEUE: &str = "MGB_QUEUE";

/// Where a user's queue is on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    /// The folder of its state and of its jobs' logs: `$MGB_QUEUE`, else `mgb/queue-NODE` in
    /// `$XDG_STATE_HOME`, else in `~/.local/state`. Homes are often shared by nodes, queues are not.
    pub folder: PathBuf,
    /// Where the service listens: `queue.sock` in `$MGB_QUEUE`, else in `$XDG_RUNTIME_DIR/mgb`, else in
    /// `/tmp/mgb-UID`.
    pub socket: PathBuf,
}

impl QueuePlace {
    /// That of this process's user, as its environment says.
    ///
    /// # Errors
    /// When there is no home.
    pub fn find() -> Result<Self> {
        if let Some(folder) = set(QUEUE) {
            let folder = std::path::absolute(folder)?;
            return Ok(Self {
                socket: folder.join("queue.sock"),
                folder,
            });
        }
        let state = match (set("XDG_STATE_HOME"), set("HOME")) {
            (Some(state), _) => PathBuf::from(state),
            (None, home) => {
                PathBuf::from(home.context("there is no HOME: set MGB_QUEUE to a folder for the queue")?)
                    .join(".local/state")
            }
        };
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let uid = rustix::process::getuid().as_raw();
        let runtime = set("XDG_RUNTIME_DIR").map_or_else(
            || PathBuf::from(format!("/tmp/mgb-{uid}")),
            |runtime| PathBuf::from(runtime).join("mgb"),
        );
        Ok(Self {
            folder: state.join(format!("mgb/queue-{node}")),
            socket: runtime.join("queue.sock"),
        })
    }
}

fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
