//! A node of a test's own: software GPUs with their own state, and perhaps an `mgbd` on a socket of its own.
//! Nothing of it is shared with other tests or with the user's own mgbd.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use mgb_probe::Client;
use mgb_probe::view::{NodeView, TaskState};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::built::cache;
use crate::prefix::{bin, softgpu_libraries};
use crate::process::{Ended, RunningProgram};
use crate::wait;

/// Held by every node: a test that measures times takes it alone. Tests are threads of a process, under
/// `cargo test`, or processes of their own (`tools/test.py`), so it is a file's lock.
fn machine() -> File {
    let file = cache(".machine");
    File::create(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// A private node. Dropping it stops its mgbd. A test has one at a time.
#[derive(Debug)]
pub struct PrivateNode {
    folder: TempDir,
    /// Within it; usually itself.
    socket_folder: &'static str,
    devices: String,
    daemon: Option<RunningProgram>,
    /// The mgbd that came in its place.
    successor: Option<u32>,
    view: Option<String>,
    /// Locked until this node is gone.
    _machine: File,
}

impl PrivateNode {
    /// A node with software GPUs (`4x256MiB`, as `SOFTGPU_DEVICES` takes them) and no mgbd.
    ///
    /// # Panics
    ///
    /// When no temporary folder can be made.
    pub fn without_mgbd(devices: &str) -> PrivateNode {
        let machine = machine();
        machine.lock_shared().expect("a file can be locked");
        PrivateNode::new(devices, machine)
    }

    /// As [`PrivateNode::start`], while no other test has a node: for a test that measures times.
    ///
    /// # Panics
    ///
    /// When mgbd does not come up.
    pub fn start_alone(devices: &str, policy: &str) -> PrivateNode {
        let machine = machine();
        machine.lock().expect("a file can be locked");
        let mut node = PrivateNode::new(devices, machine);
        node.start_mgbd(policy);
        node
    }

    fn new(devices: &str, machine: File) -> PrivateNode {
        let folder = tempfile::Builder::new()
            .prefix("mgb-test")
            .tempdir()
            .expect("a temporary folder can be made");
        PrivateNode {
            folder,
            socket_folder: "",
            devices: devices.to_owned(),
            daemon: None,
            successor: None,
            view: None,
            _machine: machine,
        }
    }

    /// A node with software GPUs and an mgbd under `policy` that takes clients.
    ///
    /// # Panics
    ///
    /// When mgbd does not come up.
    pub fn start(devices: &str, policy: &str) -> PrivateNode {
        let mut node = PrivateNode::without_mgbd(devices);
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
        self.start_mgbd_with(policy, &[]);
    }

    /// As [`PrivateNode::start_mgbd`], with further options.
    ///
    /// # Panics
    ///
    /// When it ends before that.
    #[track_caller]
    pub fn start_mgbd_with(&mut self, policy: &str, options: &[&str]) {
        let mut command = self.mgbd(&[&["--policy", policy], options].concat());
        self.start_mgbd_as(&mut command);
    }

    /// Starts an mgbd by a command of [`PrivateNode::mgbd`]'s.
    ///
    /// # Panics
    ///
    /// When it ends before it serves.
    #[track_caller]
    pub fn start_mgbd_as(&mut self, command: &mut Command) {
        let mut daemon = RunningProgram::start(command);
        let client = wait::try_until(|| match Client::observe(&self.socket()) {
            Ok(client) => Some(Some(client)),
            Err(_) if daemon.runs() => None,
            Err(_) => Some(None),
        });
        let Some(client) = client.flatten() else {
            panic!("mgbd did not come up: {:?}", daemon.end())
        };
        self.view = client.hello().view.clone();
        self.daemon = Some(daemon);
    }

    /// The folder of this node: for traces, job files and logs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where its mgbd listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(self.socket_folder).join("mgbd.sock")
    }

    /// Has its mgbd listen in a folder within the node's, before there is one.
    pub fn move_socket(&mut self, folder: &'static str) {
        self.socket_folder = folder;
    }

    /// The process id of its mgbd.
    ///
    /// # Panics
    ///
    /// When it has none.
    pub fn mgbd_pid(&self) -> u32 {
        let own = || self.daemon.as_ref().expect("the node has an mgbd").pid();
        self.successor.unwrap_or_else(own)
    }

    /// The process that holds what outlives its mgbd; `None`: there is none.
    pub fn holder_pid(&self) -> Option<u32> {
        let socket = self.socket();
        let is_it = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0).skip(1);
            words.next() == Some(b"hold") && words.next() == Some(socket.as_os_str().as_encoded_bytes())
        };
        let entries = fs::read_dir("/proc").ok()?.flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.find(is_it)
    }

    /// Kills the holder.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn kill_holder(&self) {
        kill(self.holder_pid().expect("there is a holder"), Signal::KILL);
    }

    /// Sends a signal to the mgbd of the node.
    ///
    /// # Panics
    ///
    /// When the node has none.
    pub fn signal_mgbd(&self, signal: Signal) {
        kill(self.mgbd_pid(), signal);
    }

    /// Kills mgbd by this signal, and waits for the one that comes in its place.
    ///
    /// # Panics
    ///
    /// When the node has none, or none comes.
    #[track_caller]
    pub fn replace_mgbd(&mut self, signal: Signal) {
        let old = self.mgbd_pid();
        kill(old, signal);
        let client = wait::until("another mgbd", || {
            let client = Client::observe(&self.socket()).ok()?;
            (client.hello().mgbd_pid != old).then_some(client)
        });
        self.view = client.hello().view.clone();
        self.successor = Some(client.hello().mgbd_pid);
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

    /// What mgbd shows of this node: quick enough to be asked every millisecond.
    ///
    /// # Panics
    ///
    /// When there is no mgbd or it shows nothing.
    #[track_caller]
    pub fn view(&self) -> NodeView {
        let name = self.view.as_ref().expect("the node has an mgbd");
        mgb_probe::view::read(name).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The name of what mgbd shows, as shared memory.
    ///
    /// # Panics
    ///
    /// When there was no mgbd.
    pub fn view_name(&self) -> &str {
        self.view.as_ref().expect("the node had an mgbd")
    }

    /// Waits until nobody holds or waits for anything.
    ///
    /// # Panics
    ///
    /// When somebody goes on doing so.
    #[track_caller]
    pub fn wait_until_empty(&self) {
        let empty = wait::try_until(|| is_empty(&self.view()).then_some(()));
        assert!(
            empty.is_some(),
            "the ledger does not become empty: {:#?}",
            self.view()
        );
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

impl Drop for PrivateNode {
    fn drop(&mut self) {
        if let Some(successor) = self.successor {
            kill(successor, Signal::TERM);
        }
    }
}

fn kill(pid: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32);
    let _ = rustix::process::kill_process(pid.expect("a process id is not 0"), signal);
}

/// Whether nobody holds or waits for anything.
pub fn is_empty(view: &NodeView) -> bool {
    let charged =
        |gpu: &mgb_probe::view::GpuView| gpu.reserved_bytes + gpu.contexts_bytes + gpu.reclaiming_bytes;
    view.tasks.is_empty() && view.queue.is_empty() && view.gpus.iter().all(|gpu| charged(gpu) == 0)
}

/// Whether a process holds room that is not marked as being reclaimed.
pub fn holds(view: &NodeView, pid: u32) -> bool {
    view.tasks
        .iter()
        .any(|task| task.pid == pid && task.state != TaskState::Reclaiming)
}
