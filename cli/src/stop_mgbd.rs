//! `mgb stop`: ends mgbd. Programs that run go on; what they need outlives mgbd, and ends with the last of
//! them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mgb_command::daemon;
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::out;
use mgb_interface::holder;
use mgb_probe::trust::Folder;
use mgb_probe::{Client, ConnectError, lock_path, socket_path};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long mgbd may take to end: it waits for its MPS to end, where nobody uses that any more.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Stop mgbd; programs that run on a GPU go on to their end.
///
/// Programs that wait for room end with an error. MPS ends with the last program that uses it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0, or 3 if mgbd cannot be stopped.")]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args) -> CommandResult {
    out::print(&stop(&socket_path()).code(exit::NODE)?);
    Ok(exit::OK)
}

fn stop(socket: &Path) -> Result<String> {
    let mut said = String::new();
    let mut holding = Vec::new();
    match Client::observe(socket) {
        Err(ConnectError::NotRunning(_)) => {
            said.push_str(&format!("no mgbd runs (none listens at {})\n", socket.display()));
        }
        Err(error) => return Err(daemon::way_out(error)),
        Ok(client) => {
            let pid = client.hello().mgbd_pid;
            let mut waits = 0;
            if let Ok(view) = client.status() {
                holding.extend(view.tasks.iter().map(|task| task.pid).filter(|pid| *pid != 0));
                waits = view.queue.len() + view.cut.queue as usize;
            }
            end(socket, pid)?;
            said.push_str(&format!("mgbd (pid {pid}) has ended\n"));
            if waits > 0 {
                said.push_str(&format!("requests for room that waited, and fail: {waits}\n"));
            }
        }
    }
    let left = holder::report(socket);
    let has_mps = left.as_ref().is_some_and(|left| left.mps);
    holding.extend(left.into_iter().flat_map(|left| left.pids));
    holding.sort_unstable();
    holding.dedup();
    let running: Vec<String> = holding.iter().filter_map(|pid| program(*pid)).collect();
    if !running.is_empty() {
        let mps = if has_mps {
            ", and MPS ends with the last of them"
        } else {
            ""
        };
        said.push_str(&format!(
            "these go on to their end{mps}: {}\n",
            running.join(", ")
        ));
    }
    Ok(said)
}

/// Has mgbd end, and waits until it has.
fn end(socket: &Path, pid: u32) -> Result<()> {
    let process = Pid::from_raw(pid as i32).context("mgbd says no process id")?;
    let failed = || format!("failed to stop mgbd (pid {pid})");
    // Taken before it is looked at: a number that another process gets later names nobody here.
    let process = pidfd_open(process, PidfdFlags::empty()).with_context(|| {
        format!(
            "{}: stop it where it was started, which is not in a container",
            failed()
        )
    })?;
    if !holds_lock(socket, pid).with_context(failed)? {
        bail!(
            "failed to stop mgbd: it says that it is process {pid}, and that one does not hold {} as mgbd does; stop \
             it where it was started",
            lock_path(socket).display()
        );
    }
    pidfd_send_signal(&process, Signal::TERM).with_context(failed)?;
    let patience = Timespec {
        tv_sec: STOP_TIMEOUT.as_secs() as i64,
        tv_nsec: 0,
    };
    match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience)).with_context(failed)? {
        0 => bail!(
            "mgbd (pid {pid}) does not end in {} s; see its log",
            STOP_TIMEOUT.as_secs()
        ),
        _ => Ok(()),
    }
}

/// Whether a process is the one that runs at a socket: the lock beside it is held by a file that one of its
/// threads has open. mgbd has it in a thread that shares no files with the others.
fn holds_lock(socket: &Path, pid: u32) -> Result<bool> {
    let path = lock_path(socket);
    let at = || path.display().to_string();
    let folder = Folder::of(socket).with_context(at)?;
    let lock = folder.file(path.file_name().unwrap_or_default(), OFlags::PATH);
    let lock = lock.with_context(at)?.metadata().with_context(at)?;
    let threads = PathBuf::from(format!("/proc/{pid}/task"));
    for thread in std::fs::read_dir(&threads).with_context(|| threads.display().to_string())? {
        let thread = thread?.path();
        // A thread may end meanwhile.
        for file in std::fs::read_dir(thread.join("fd")).into_iter().flatten() {
            let file = file?;
            // By its name first: a look at a file of a client's may wait for whoever serves its file system.
            let name = std::fs::read_link(file.path()).unwrap_or_default();
            let is_it = name.file_name() == path.file_name()
                && std::fs::metadata(file.path())
                    .is_ok_and(|file| (file.dev(), file.ino()) == (lock.dev(), lock.ino()));
            let info = thread.join("fdinfo").join(file.file_name());
            if is_it && std::fs::read_to_string(info).is_ok_and(|info| info.contains("FLOCK")) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// A process by number and name; `None` if it has ended.
fn program(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, state) = stat.rsplit_once(") ")?;
    let name = head.split_once('(')?.1;
    (!state.starts_with(['Z', 'X'])).then(|| format!("{name} (pid {pid})"))
}
