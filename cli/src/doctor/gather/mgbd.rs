//! mgbd, asked as `mgb status` asks it, and the processes that are its clients.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use mgb_interface::mps;
use mgb_probe::trust::Folder;
use mgb_probe::view::NodeView;
use mgb_probe::{Client, ConnectError, Hello, lock_path, socket_path, visible_gpus};
use rustix::fs::OFlags;

use super::super::gpus::GpuFacts;
use super::super::mgbd::{MgbdAnswer, MgbdFacts, RunningMgbd};

/// How the channel of a client is called where its memory is listed.
const CHANNEL: &str = "/memfd:mgb-channel";

/// What was seen of mgbd.
pub struct SeenMgbd {
    socket: PathBuf,
    answer: Result<(Hello, Result<NodeView, String>), MgbdAnswer>,
    lock_pid: Option<u32>,
    /// The channels that mgbd has mapped: each is a client's.
    channels: HashSet<u64>,
}

/// Asks `mgbd` for its view.
pub fn ask() -> SeenMgbd {
    let socket = socket_path();
    let answer = match Client::observe(&socket) {
        Ok(client) => {
            let view = client.status().map_err(|error| error.to_string());
            Ok((client.hello().clone(), view))
        }
        Err(error) => Err(failed(error)),
    };
    let channels = match &answer {
        Ok((hello, _)) => channels(hello.mgbd_pid),
        Err(_) => HashSet::new(),
    };
    SeenMgbd {
        lock_pid: lock_pid(&socket),
        socket,
        answer,
        channels,
    }
}

fn failed(error: ConnectError) -> MgbdAnswer {
    match error {
        ConnectError::NotRunning(_) => MgbdAnswer::None,
        ConnectError::Denied(_) => MgbdAnswer::Denied,
        ConnectError::Untrusted { path, why } => MgbdAnswer::Untrusted(format!("{} {why}", path.display())),
        ConnectError::Version { theirs, ours } => MgbdAnswer::Version { theirs, ours },
        ConnectError::Refused(why) => MgbdAnswer::Refused(why),
        ConnectError::HungUp(_) => MgbdAnswer::Strange("it hung up".to_owned()),
        ConnectError::NoHello(_, why) => MgbdAnswer::Strange(why),
        ConnectError::System { what, error, .. } => MgbdAnswer::Failed(format!("failed to {what}: {error}")),
    }
}

impl SeenMgbd {
    /// What it said of itself.
    pub fn hello(&self) -> Option<&Hello> {
        self.answer.as_ref().ok().map(|(hello, _)| hello)
    }

    /// Whether a process is one of its clients, or of its own: it, its holder's MPS.
    pub fn has(&self, pid: u32) -> bool {
        let Ok((hello, view)) = &self.answer else {
            return false;
        };
        let holds = |view: &NodeView| view.tasks.iter().any(|task| task.pid == pid);
        pid == hello.mgbd_pid
            || view.as_ref().is_ok_and(holds)
            || !self.channels.is_disjoint(&channels(pid))
            || self.is_mps_server(pid)
    }

    fn is_mps_server(&self, pid: u32) -> bool {
        let control = mps::control(&mps::pipe_of(&self.socket));
        control.is_some_and(|control| parent_of(pid) == Some(control.pid))
    }

    /// For the check, with the GPUs that NVML lists and the mask of `CUDA_VISIBLE_DEVICES`.
    pub fn facts(&self, gpus: &[GpuFacts], mask: Option<&str>) -> MgbdFacts {
        let answer = match &self.answer {
            Ok((hello, view)) => MgbdAnswer::Runs(RunningMgbd {
                pid: hello.mgbd_pid,
                policy: hello.policy.clone(),
                queue: hello.queue.clone(),
                clients: view.as_ref().map_or(0, |view| view.clients),
                gpus: hello.gpus.iter().map(|gpu| gpu.uuid.clone()).collect(),
                view_fault: view.as_ref().err().cloned(),
            }),
            Err(answer) => answer.clone(),
        };
        let uuids: Vec<&str> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        let visible = visible_gpus(mask, &uuids).unwrap_or_default();
        MgbdFacts {
            socket: self.socket.clone(),
            answer,
            lock_pid: self.lock_pid,
            visible: visible.into_iter().map(|at| uuids[at].to_owned()).collect(),
        }
    }
}

/// The mgbd that noted itself in the lock file of a socket, if it lives. The lock itself is left alone: an
/// mgbd that starts now would find it taken.
fn lock_pid(socket: &Path) -> Option<u32> {
    let lock = lock_path(socket);
    let mut file = Folder::of(socket)
        .ok()?
        .file(lock.file_name()?, OFlags::RDONLY)
        .ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let note: serde_json::Value = serde_json::from_str(&text).ok()?;
    let pid = u32::try_from(note["pid"].as_u64()?).ok()?;
    (name_of(pid)? == "mgbd").then_some(pid)
}

/// A process's name, if it is seen here.
pub fn name_of(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The channels in a process's memory, by their inodes.
fn channels(pid: u32) -> HashSet<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    inodes(&maps).collect()
}

fn inodes(maps: &str) -> impl Iterator<Item = u64> {
    let ours = maps.lines().filter(|line| line.contains(CHANNEL));
    ours.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_known_by_their_inodes() {
        let maps = "7f00-7f08 rw-s 00000000 00:01 4711 /memfd:mgb-channel (deleted)\n\
                    7f10-7f18 rw-s 00000000 00:01 4712 /memfd:other (deleted)\n\
                    7f20-7f28 rw-p 00000000 00:00 0 [stack]\n";
        assert_eq!(inodes(maps).collect::<Vec<_>>(), [4711]);
    }

    #[test]
    fn a_lock_of_a_process_that_is_no_mgbd_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("mgbd.sock");
        assert_eq!(lock_pid(&socket), None);
        let lock = lock_path(&socket);
        std::fs::write(lock, format!("{{\"pid\":{},\"view\":null}}", std::process::id())).unwrap();
        assert_eq!(lock_pid(&socket), None, "this process is no mgbd");
        assert!(name_of(std::process::id()).is_some());
        assert_eq!(
            parent_of(std::process::id()),
            Some(std::os::unix::process::parent_id())
        );
    }
}
