//! Where the MPS control daemon of an `mgbd` is found: it is known by its pipe folder.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::folders::clients_of;
use crate::peer::has_ended;

/// The name of MPS's control program.
pub const MPS_CONTROL: &str = "nvidia-cuda-mps-control";
/// Bytes that the path of a pipe folder has to be shorter than: the control daemon's socket is in the folder,
/// and its whole path has to fit a UNIX socket address.
pub const MOST_PATH: usize = 100;
/// Where a control daemon says, in its pipe folder, which process it is.
pub const PID_FILE: &str = "nvidia-cuda-mps-control.pid";

/// A control daemon that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The process id of the daemon.
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

/// The name of the pipe folder in that for clients. An mgbd at another socket in the same folder has an MPS
/// of its own.
pub fn name_of(mgbd: &Path) -> String {
    match mgbd.file_name().and_then(|name| name.to_str()) {
        None | Some("mgbd.sock") => "mps".to_owned(),
        Some(name) => format!("{name}.mps"),
    }
}
