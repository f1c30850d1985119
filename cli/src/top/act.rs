//! Does what a key has asked for, and says what came of it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use mgb_probe::{Changed, Processes};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::state::TopAction;
use crate::look::{connect, look};
use crate::relocate::{self, Stands};

/// For how long mgbd tries to move a process.
const MOVE_TIMEOUT: Duration = Duration::from_secs(6);

/// Does it at the mgbd of this socket; a sentence on what came of it.
pub(super) fn act(socket: &Path, action: &TopAction) -> String {
    match outcome(socket, action) {
        Ok(said) => said,
        Err(error) => format!("{error:#}"),
    }
}

fn outcome(socket: &Path, action: &TopAction) -> Result<String> {
    let connect = || connect(socket);
    Ok(match *action {
        TopAction::Quit => String::new(),
        TopAction::Cancel(pid) => cancel(socket, pid)?,
        TopAction::Suspend(pid) => match connect()?.suspend(Processes::One(pid))? {
            Changed::Now => format!("process {pid} is suspended; its memory leaves the GPUs"),
            Changed::Before => format!("process {pid} was suspended before"),
            Changed::Unknown => return Err(unknown(pid)),
        },
        TopAction::Resume(pid) => match connect()?.resume(Processes::One(pid))? {
            Changed::Now => format!("process {pid} is resumed"),
            Changed::Before => format!("process {pid} was not suspended by itself; `mgb resume --job {pid}`"),
            Changed::Unknown => return Err(unknown(pid)),
        },
        TopAction::Move(pid, gpu) => {
            let client = connect()?;
            if !client.hello().gpus.iter().any(|one| one.index == gpu) {
                bail!("mgbd shares no GPU {gpu}");
            }
            match client.move_to(pid, gpu)? {
                Changed::Now => match relocate::wait_until_there(&client, pid, gpu, MOVE_TIMEOUT)? {
                    Stands::There => format!("process {pid} goes on, on GPU {gpu}"),
                    Stands::Elsewhere => bail!(relocate::why_elsewhere(pid, gpu, MOVE_TIMEOUT)),
                    Stands::Ended => bail!("process {pid} has ended"),
                },
                Changed::Before => format!("process {pid} is on GPU {gpu} already"),
                Changed::Unknown => return Err(unknown(pid)),
            }
        }
    })
}

fn unknown(pid: u32) -> anyhow::Error {
    anyhow!("mgbd knows no process {pid} any more")
}

/// Ends a process that mgbd knows. It is held on to before mgbd is asked, so that it cannot be another one
/// that has come to its number.
fn cancel(socket: &Path, pid: u32) -> Result<String> {
    let number = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .context("no process has such a number")?;
    let process = pidfd_open(number, PidfdFlags::empty());
    let view = look(socket)?;
    let pids = view.tasks.iter().map(|task| task.pid);
    if !pids
        .chain(view.queue.iter().map(|wait| wait.pid))
        .any(|known| known == pid)
    {
        return Err(unknown(pid));
    }
    let sent = process.and_then(|process| pidfd_send_signal(process, Signal::TERM));
    match sent {
        Ok(()) => Ok(format!("process {pid} was sent SIGTERM")),
        Err(Errno::PERM) => bail!("process {pid} is another user's: only they and root can end it"),
        Err(Errno::SRCH) => bail!("process {pid} has ended, or runs where it has another number here"),
        Err(error) => Err(error).with_context(|| format!("failed to end process {pid}")),
    }
}
