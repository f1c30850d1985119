//! A node of a test's own: software GPUs with their own state, and perhaps an `mgbd` on a socket of its own. Nothing of
//! it is shared with other tests or with the user's own mgbd.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::prefix::{bin, softgpu_libraries};
use crate::process::{Ended, Running, run};
use crate::wait;

/// The parts of `mgb status --json` that tests look at.
#[derive(Debug, serde::Deserialize)]
pub struct Ledger {
    gpus: Vec<Room>,
    waiting: u64,
}

#[derive(Debug, serde::Deserialize)]
struct Room {
    reserved_bytes: u64,
    reclaiming_bytes: u64,
    holders: Vec<Holder>,
}

#[derive(Debug, serde::Deserialize)]
struct Holder {
    pid: u32,
    reclaiming: bool,
}

impl Ledger {
    /// Whether nobody holds or waits for anything.
    pub fn is_empty(&self) -> bool {
        let rooms_are = self
            .gpus
            .iter()
            .all(|g| g.reserved_bytes + g.reclaiming_bytes == 0 && g.holders.is_empty());
        rooms_are && self.waiting == 0
    }

    /// Whether a process holds room that is not marked as being reclaimed.
    pub fn holds(&self, pid: u32) -> bool {
        self.gpus
            .iter()
            .flat_map(|g| &g.holders)
            .any(|h| h.pid == pid && !h.reclaiming)
    }
}

/// A private node. Dropping it stops its mgbd.
#[derive(Debug)]
pub struct Node {
    folder: TempDir,
    devices: String,
    daemon: Option<Running>,
}

impl Node {
    /// A node with software GPUs (`4x256MiB`, as `SOFTGPU_DEVICES` takes them) and no mgbd.
    ///
    /// # Panics
    ///
    /// When no temporary folder can be made.
    pub fn without_mgbd(devices: &str) -> Node {
        let folder = tempfile::Builder::new()
            .prefix("mgb-test")
            .tempdir()
            .expect("a temporary folder can be made");
        Node {
            folder,
            devices: devices.to_owned(),
            daemon: None,
        }
    }

    /// A node with software GPUs and an mgbd under `policy` that takes clients.
    ///
    /// # Panics
    ///
    /// When mgbd does not come up.
    pub fn start(devices: &str, policy: &str) -> Node {
        let mut node = Node::without_mgbd(devices);
        node.start_mgbd(policy);
        node
    }

    /// Starts mgbd and waits until it takes clients.
    ///
    /// # Panics
    ///
    /// When it ends before that.
    #[track_caller]
    pub fn start_mgbd(&mut self, policy: &str) {
        let mut daemon = Running::start(&mut self.mgbd(&["--policy", policy]));
        let socket = self.socket();
        let up = wait::try_until(|| (takes_clients(&socket) || !daemon.runs()).then_some(()));
        assert!(
            up.is_some() && daemon.runs(),
            "mgbd did not come up: {:?}",
            daemon
                .runs()
                .then(String::new)
                .unwrap_or_else(|| daemon.end().stderr)
        );
        self.daemon = Some(daemon);
    }

    /// The folder of this node: for traces, job files and logs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where its mgbd listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("mgbd.sock")
    }

    /// The process id of its mgbd.
    ///
    /// # Panics
    ///
    /// When it has none.
    pub fn mgbd_pid(&self) -> u32 {
        self.daemon.as_ref().expect("the node has an mgbd").pid()
    }

    /// `program` with `arguments`, on this node.
    pub fn command(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("MGB") || name.to_string_lossy().starts_with("SOFTGPU") {
                command.env_remove(name);
            }
        }
        command
            .env("MGB_SOCKET", self.socket())
            .env("SOFTGPU_DEVICES", &self.devices)
            .env("SOFTGPU_STATE", self.folder.path().join("softgpu.state"))
            .env("LD_LIBRARY_PATH", softgpu_libraries());
        command
    }

    /// `mgb` with `arguments`, on this node.
    pub fn mgb(&self, arguments: &[&str]) -> Command {
        self.command(bin("mgb"), arguments)
    }

    /// `mgbd` with `arguments`, on this node.
    pub fn mgbd(&self, arguments: &[&str]) -> Command {
        self.command(bin("mgbd"), arguments)
    }

    /// What `mgb status --json` says.
    ///
    /// # Panics
    ///
    /// When it fails or says no JSON.
    #[track_caller]
    pub fn status(&self) -> serde_json::Value {
        let text = run(&mut self.mgb(&["status", "--json"])).success();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("mgb status --json: {e}: {text}"))
    }

    /// The ledger as `mgb status --json` shows it.
    ///
    /// # Panics
    ///
    /// When it fails or says something else.
    #[track_caller]
    pub fn ledger(&self) -> Ledger {
        let status = self.status();
        serde_json::from_value(status.clone()).unwrap_or_else(|e| panic!("mgb status --json: {e}: {status}"))
    }

    /// Waits until nobody holds or waits for anything.
    ///
    /// # Panics
    ///
    /// When somebody goes on doing so.
    #[track_caller]
    pub fn wait_until_empty(&self) {
        let mut last = None;
        let empty = wait::try_until(|| {
            let ledger = self.ledger();
            let empty = ledger.is_empty();
            last = Some(ledger);
            empty.then_some(())
        });
        assert!(empty.is_some(), "the ledger does not become empty: {last:?}");
    }

    /// Writes a file of this node's folder and gives its path.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("a temporary file can be written");
        path
    }

    /// Kills mgbd, so that its socket stays behind.
    ///
    /// # Panics
    ///
    /// When the node has none.
    pub fn kill_mgbd(&mut self) {
        drop(self.daemon.take().expect("the node has an mgbd"));
    }

    /// Stops mgbd as a user would and gives what it said.
    ///
    /// # Panics
    ///
    /// When the node has none, or it does not end.
    pub fn stop_mgbd(&mut self) -> Ended {
        let daemon = self.daemon.take().expect("the node has an mgbd");
        daemon.signal(Signal::TERM);
        daemon.end()
    }
}

/// Whether somebody accepts connections on `socket`.
pub fn takes_clients(socket: &Path) -> bool {
    let Ok(address) = SocketAddrUnix::new(socket) else {
        return false;
    };
    let Ok(client) = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None) else {
        return false;
    };
    rustix::net::connect(&client, &address).is_ok()
}
