//! The MPS control daemon: kernels of different processes overlap only under MPS.
//!
//! It is a daemon of its own, known by its pipe folder. One that runs there for this user is adopted,
//! whoever started it; none is ever stopped under a client.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::MPS_CONTROL;
use crate::folders::{clients_of, make_for_clients};
use crate::peer::has_ended;

/// Bytes that the path of a pipe folder has to be shorter than: the control daemon's socket is in the folder,
/// and its whole path has to fit a UNIX socket address.
pub const MOST_PATH: usize = 100;
/// How long it may take to answer, and to quit.
const MPS_TIMEOUT: Duration = Duration::from_secs(10);
/// The version of the control daemon's commands that is spoken here; drivers that know only one ignore it.
const PROTOCOL: &str = "2";
/// Most of an answer that is read.
const MOST_ANSWER: u64 = 64 << 10;

/// Where a control daemon says, in its pipe folder, which process it is.
const PID_FILE: &str = "nvidia-cuda-mps-control.pid";

/// A control daemon that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The daemon's process id.
    pub pid: u32,
    /// The user that runs it.
    pub uid: u32,
}

/// The control daemon of a pipe folder, whoever started it: the process that the folder names, if it lives
/// and is one.
pub fn control(pipe: &Path) -> Option<Control> {
    let text = std::fs::read_to_string(pipe.join(PID_FILE)).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    let process = PathBuf::from(format!("/proc/{pid}"));
    let uid = std::fs::metadata(&process).ok()?.uid();
    let name = std::fs::read_to_string(process.join("comm")).ok()?;
    // The kernel cuts names to 15 characters.
    let is_control = !name.trim().is_empty() && MPS_CONTROL.starts_with(name.trim());
    (is_control && !has_ended(pid)).then_some(Control { pid, uid })
}

/// The pipe folder of the `mgbd` at a socket.
pub fn pipe_of(mgbd: &Path) -> PathBuf {
    clients_of(mgbd).join(name_of(mgbd))
}

/// An mgbd at another socket in the same folder has an MPS of its own.
fn name_of(mgbd: &Path) -> String {
    match mgbd.file_name().and_then(|name| name.to_str()) {
        None | Some("mgbd.sock") => "mps".to_owned(),
        Some(name) => format!("{name}.mps"),
    }
}

/// The MPS of one pipe folder, running or not.
pub(super) struct Mps {
    control: PathBuf,
    /// The socket of `mgbd`.
    mgbd: PathBuf,
    pipe: PathBuf,
    log: PathBuf,
}

impl Mps {
    /// That of an `mgbd`: its pipe is for clients, its log beside the socket.
    pub(super) fn of(mgbd: &Path, control: PathBuf) -> Mps {
        Mps {
            control,
            mgbd: mgbd.to_owned(),
            log: mgbd.with_file_name(format!("{}-log", name_of(mgbd))),
            pipe: pipe_of(mgbd),
        }
    }

    /// The pipe folder.
    pub(super) fn pipe(&self) -> &Path {
        &self.pipe
    }

    /// Adopts the one that runs, or starts one, perhaps for several users at once, or says why there is none.
    pub(super) fn start(&self, users: bool) -> Result<(), String> {
        if users && !rustix::process::geteuid().is_root() {
            return Err(
                "MPS serves several users only if root has started it; run mgbd as root for it".to_owned(),
            );
        }
        if self.pipe.as_os_str().len() >= MOST_PATH {
            return Err(format!(
                "{} is too long a path for MPS ({MOST_PATH} bytes); choose a shorter --socket",
                self.pipe.display()
            ));
        }
        let mode = if users { 0o755 } else { 0o700 };
        make_for_clients(&self.mgbd, &name_of(&self.mgbd), mode)
            .map_err(|error| format!("failed to make {}: {error}", self.pipe.display()))?;
        std::fs::create_dir_all(&self.log)
            .map_err(|error| format!("failed to make {}: {error}", self.log.display()))?;
        if let Some(pid) = self.control_pid() {
            if self.ask("get_server_list").is_none() {
                return Err(format!(
                    "the MPS that runs already (pid {pid}) does not answer; see {}, and stop it once its \
                     programs have ended",
                    self.log.display()
                ));
            }
            tracing::info!(pid, pipe = %self.pipe.display(), "going on with the MPS that runs already");
            return Ok(());
        }
        let output = self
            .command()
            .arg("-d")
            // Without it a user's programs wait until those of another have ended.
            .args(users.then_some("-multiuser-server"))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => format!("{MPS_CONTROL} is not installed"),
                _ => format!("failed to run {MPS_CONTROL}: {error}"),
            })?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{MPS_CONTROL} -d failed: {}", text.trim()));
        }
        let start = Instant::now();
        while start.elapsed() < MPS_TIMEOUT {
            if self.is_running() && self.ask("get_server_list").is_some() {
                self.protect();
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!(
            "{MPS_CONTROL} did not answer in {} s; see {}",
            MPS_TIMEOUT.as_secs(),
            self.log.display()
        ))
    }

    /// Has nobody else name another process as the control daemon: the driver (580) lets all write that file.
    fn protect(&self) {
        let file = self.pipe.join(PID_FILE);
        if let Err(error) = std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)) {
            tracing::warn!(%error, file = %file.display(), "others may write which process MPS is");
        }
    }

    /// Becomes readable when its control daemon ends; `None`: none lives.
    pub(super) fn watch(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(self.control_pid()? as i32)?;
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Looked at again once it is held: the number may have become another process's.
        self.is_running().then_some(process)
    }

    /// Whether its control daemon lives.
    pub(super) fn is_running(&self) -> bool {
        self.control_pid().is_some()
    }

    /// Whether a process uses it. One that does not answer may have clients.
    pub(super) fn has_clients(&self) -> bool {
        if !self.is_running() {
            return false;
        }
        let Some(servers) = self.ask("get_server_list") else {
            return true;
        };
        numbers(&servers).any(|server| {
            let clients = self.ask(&format!("get_client_list {server}"));
            clients.is_none_or(|clients| numbers(&clients).next().is_some())
        })
    }

    /// Has it end, which waits for clients that have come meanwhile. False: it runs still.
    pub(super) fn stop(&self) -> bool {
        if !self.is_running() {
            return true;
        }
        self.ask("quit");
        let start = Instant::now();
        while self.is_running() {
            if start.elapsed() > MPS_TIMEOUT {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.control);
        command
            .env("CUDA_MPS_PIPE_DIRECTORY", &self.pipe)
            .env("CUDA_MPS_LOG_DIRECTORY", &self.log)
            // The verbs that are spoken below, whatever the environment wants.
            .env("CUDA_MPS_PROTOCOL_VERSION", PROTOCOL)
            // Its server uses the driver, and is no program that asks for room: mgbd may have been started by
            // one that loads the driver front, and hands that on.
            .env("MGB", "off");
        command
    }

    /// Sends a command; what it answers, if it takes it.
    fn ask(&self, what: &str) -> Option<String> {
        // A file and not a pipe: what it starts may keep that open.
        let answer = rustix::fs::memfd_create("mps-answer", MemfdFlags::CLOEXEC).ok()?;
        let mut answer = File::from(answer);
        let mut child = self
            .command()
            .stdin(Stdio::piped())
            .stdout(answer.try_clone().ok()?)
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        if let Some(mut input) = child.stdin.take() {
            let _ = writeln!(input, "{what}");
        }
        let start = Instant::now();
        while start.elapsed() < MPS_TIMEOUT {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => {
                    let mut text = String::new();
                    answer.rewind().ok()?;
                    answer.take(MOST_ANSWER).read_to_string(&mut text).ok()?;
                    return Some(text);
                }
                Ok(Some(_)) | Err(_) => return None,
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        None
    }

    /// The control daemon's pid, if it lives, is one, and is this user's.
    fn control_pid(&self) -> Option<u32> {
        let own = rustix::process::geteuid().as_raw();
        control(&self.pipe)
            .filter(|control| control.uid == own)
            .map(|control| control.pid)
    }
}

/// The numbers of a list, one a line.
fn numbers(list: &str) -> impl Iterator<Item = u32> {
    list.split_whitespace().filter_map(|word| word.parse().ok())
}
