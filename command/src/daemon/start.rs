//! Starts mgbd, and waits until it answers or has said why it cannot.

use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use mgb_probe::trust::{Folder, folder_of};
use mgb_probe::{Client, ConnectError};
use rustix::fs::{FlockOperation, OFlags, flock};

use super::{Start, way_out};

/// Seconds without a client after which an mgbd that mgb has started ends by itself. A program becomes a
/// client at its first GPU task only, and may read its input for a while before: without an mgbd it would
/// then run unscheduled.
const IDLE_EXIT: &str = "60";

/// How long a new mgbd may take until it answers: starting MPS on a node with many GPUs takes seconds.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Starts an mgbd that ends by itself once it has been idle for a while, unless one runs. `mgb start-mgbd`
/// calls it.
///
/// # Errors
/// When it does not come up.
pub fn start_detached(start: &Start<'_>) -> Result<()> {
    let folder = folder_of(&start.socket);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| {
            format!(
                "failed to make {}, the folder of mgbd's socket; set MGB_SOCKET",
                folder.display()
            )
        })?;
    // Several mgb may find at once that none runs: one starts it, the others find it running.
    let lock = open(&start.socket, ".starting")?;
    flock(&lock, FlockOperation::LockExclusive).context("failed to wait for another mgb that starts mgbd")?;
    match Client::observe(&start.socket) {
        Err(ConnectError::NotRunning(_)) => {}
        client => return client.map(drop).map_err(way_out),
    }
    let mut daemon = spawn(start, IDLE_EXIT)?;
    wait_until_up(&mut daemon, start).map(drop)
}

/// Starts an mgbd, detached from this terminal and this process group: later commands use it as well.
pub fn spawn(start: &Start<'_>, idle_exit: &str) -> Result<Logged> {
    let mgbd = start.prefix.mgbd()?;
    let log = beside(&start.socket, ".log");
    let mut output = open(&start.socket, ".log")?;
    let from = output
        .seek(SeekFrom::End(0))
        .with_context(|| format!("failed to write {}", log.display()))?;
    let mut command = Command::new(&mgbd);
    command
        .args(["--idle-exit", idle_exit])
        .env("MGB_SOCKET", std::path::absolute(&start.socket)?)
        .current_dir("/");
    command.args(start.sharing()).args(&start.options);
    start.machine.apply(&mut command);
    // A program of a service is not that service, and has nothing to tell systemd for it.
    for name in mgb_interface::SYSTEMD_VARIABLES {
        command.env_remove(name);
    }
    command.envs(start.environment.iter().map(|(name, value)| (name, value)));
    let copy = output.try_clone().context("failed to open mgbd's log twice")?;
    command.stdin(Stdio::null()).stdout(copy).stderr(output);
    // SAFETY: setsid is async-signal-safe, and the closure touches no memory of the parent's other threads.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into));
    }
    let child = command
        .spawn()
        .with_context(|| format!("failed to start {}", mgbd.display()))?;
    Ok(Logged { child, log, from })
}

/// A daemon, and where its part of the log begins.
pub struct Logged {
    /// The process of the daemon.
    pub child: Child,
    log: PathBuf,
    from: u64,
}

/// Connects to an mgbd that was just started, once it answers.
///
/// # Errors
/// When it ended before, with what it said, or takes too long.
pub fn wait_until_up(daemon: &mut Logged, start: &Start<'_>) -> Result<Client> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let ended = daemon.child.try_wait().context("failed to watch mgbd")?;
        // After looking whether it has ended: an mgbd that lost to another one leaves that one listening.
        match Client::observe(&start.socket) {
            Err(ConnectError::NotRunning(_)) => {}
            client => return client.map_err(way_out),
        }
        if let Some(status) = ended {
            let said = said_since(&daemon.log, daemon.from);
            let why = if said.is_empty() { status.to_string() } else { said };
            return Err(anyhow!("{why}").context(format!(
                "failed to start mgbd (its log is {})",
                daemon.log.display()
            )));
        }
        if Instant::now() > deadline {
            bail!(
                "failed to start mgbd: it does not answer at {} after {} s; see its log {}",
                start.socket.display(),
                START_LIMIT.as_secs(),
                daemon.log.display()
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What mgbd said since it was started: the last lines, which name the reason.
fn said_since(log: &Path, from: u64) -> String {
    let mut text = String::new();
    let read = File::open(log).and_then(|mut file| {
        file.seek(SeekFrom::Start(from))?;
        file.read_to_string(&mut text)
    });
    match read {
        Ok(_) => text
            .trim()
            .lines()
            .rev()
            .take(3)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
            .join("; "),
        Err(_) => String::new(),
    }
}

fn beside(socket: &Path, ending: &str) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Opens a file beside the socket to append to, which no other user has made and no link leads to.
fn open(socket: &Path, ending: &str) -> Result<File> {
    let path = beside(socket, ending);
    let how = OFlags::CREATE | OFlags::APPEND | OFlags::RDWR;
    let name = path.file_name().unwrap_or_default();
    let file = Folder::of_own(socket)
        .map_err(|why| (folder_of(socket), why))
        .and_then(|folder| folder.file(name, how).map_err(|why| (path.as_path(), why)));
    file.map_err(|(at, why)| {
        anyhow!(
            "failed to write {}: {} {why}; set MGB_SOCKET to a path in a folder of yours",
            path.display(),
            at.display()
        )
    })
}
