//! `mgb stop`: ends mgbd. Programs that run go on; what they need outlives mgbd, and ends with the last of
//! them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mgb_probe::{Client, ConnectError, socket_path};
use mgb_scheduler::holder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::daemon;
use crate::exit::{self, Outcome, WithCode};
use crate::out;

/// How long mgbd may take to end: it waits for its MPS to end, where nobody uses that any more.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stop mgbd; programs that run on a GPU go on to their end.
///
/// Programs that wait for room end with an error. MPS ends with the last program that uses it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0, or 3 if mgbd cannot be stopped.")]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args) -> Outcome {
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
            end(pid)?;
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
fn end(pid: u32) -> Result<()> {
    let process = Pid::from_raw(pid as i32).context("mgbd says no process id")?;
    let failed = || format!("failed to stop mgbd (pid {pid})");
    let process = pidfd_open(process, PidfdFlags::empty()).with_context(failed)?;
    pidfd_send_signal(&process, Signal::TERM).with_context(failed)?;
    let patience = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience)).with_context(failed)? {
        0 => bail!(
            "mgbd (pid {pid}) does not end in {} s; see its log",
            PATIENCE.as_secs()
        ),
        _ => Ok(()),
    }
}

/// A process by number and name; `None` if it has ended.
fn program(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, state) = stat.rsplit_once(") ")?;
    let name = head.split_once('(')?.1;
    (!state.starts_with(['Z', 'X'])).then(|| format!("{name} (pid {pid})"))
}
