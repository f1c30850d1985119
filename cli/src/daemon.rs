//! Finds mgbd, and starts it where none runs.
//!
//! A new mgbd is started by a helper process, `mgb start-mgbd`, that ends when mgbd answers: so mgbd is nobody's child,
//! and a program that `mgb run` becomes never finds an mgbd among its own.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use mgb_probe::{Client, ConnectError};
use rustix::fs::{FlockOperation, flock};

use crate::machine::Machine;
use crate::policy::Policy;
use crate::prefix::Prefix;

/// Seconds without a client after which an mgbd that mgb has started ends by itself.
const IDLE_EXIT: &str = "10";

/// How long a new mgbd may take until it answers: starting MPS on a node with many GPUs takes seconds.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How an mgbd is started.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// Where mgbd lies.
    pub prefix: &'a Prefix,
    /// The GPUs it shares.
    pub machine: &'a Machine,
    /// The policy that the user wants, if any.
    pub policy: Option<Policy>,
    /// Where it listens.
    pub socket: PathBuf,
    /// More variables for it.
    pub environment: Vec<(OsString, OsString)>,
}

/// Connects to the mgbd of this socket, starting one if none runs. The connection only looks; it is no client.
///
/// # Errors
/// When one runs under another policy than asked for, when it turns this user away, or when none can be started.
pub fn ensure(start: &Start<'_>) -> Result<Client> {
    let client = match Client::observe(&start.socket) {
        Err(ConnectError::NotRunning(_)) => {
            start_by_helper(start)?;
            Client::observe(&start.socket).map_err(way_out)?
        }
        client => client.map_err(way_out)?,
    };
    let hello = client.hello();
    if let Some(wanted) = start.policy.filter(|wanted| wanted.to_string() != hello.policy) {
        bail!(
            "mgbd (pid {}) runs under the policy {}, not {wanted}: stop it with `kill {}` once its programs have ended, \
             or leave --policy away",
            hello.mgbd_pid,
            hello.policy,
            hello.mgbd_pid
        );
    }
    Ok(client)
}

/// Why there is no connection, and what the user of a command can do about it.
pub fn way_out(error: ConnectError) -> anyhow::Error {
    match error {
        ConnectError::NotRunning(socket) => anyhow!(
            "no mgbd runs (none listens at {}): `mgb run` and `mgb batch` start one, and so does `mgbd`",
            socket.display()
        ),
        ConnectError::Denied(socket) => anyhow!(
            "permission denied on mgbd's socket {}: it is another user's; set MGB_SOCKET to a path in a folder of yours",
            socket.display()
        ),
        other => other.into(),
    }
}

fn start_by_helper(start: &Start<'_>) -> Result<()> {
    let mgb = start.prefix.mgb()?;
    let mut command = Command::new(&mgb);
    command
        .arg("start-mgbd")
        .env("MGB_SOCKET", &start.socket)
        .env("MGB_PREFIX", start.prefix.path());
    if let Some(policy) = start.policy {
        command.args(["--policy", &policy.to_string()]);
    }
    start.machine.apply(&mut command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("failed to run {}", mgb.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().trim_start_matches("mgb start-mgbd: ");
        bail!(
            "{}",
            if said.is_empty() {
                "failed to start mgbd"
            } else {
                said
            }
        );
    }
    Ok(())
}

/// Starts an mgbd that ends by itself once it has been idle for a while, unless one runs. For the helper.
///
/// # Errors
/// When it does not come up.
pub fn start_detached(start: &Start<'_>) -> Result<()> {
    let folder = start
        .socket
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
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
    let lock = open(&beside(&start.socket, ".starting"))?;
    flock(&lock, FlockOperation::LockExclusive).context("failed to wait for another mgb that starts mgbd")?;
    match Client::observe(&start.socket) {
        Err(ConnectError::NotRunning(_)) => {}
        client => return client.map(drop).map_err(way_out),
    }
    let log = beside(&start.socket, ".log");
    let mut daemon = spawn(start, &log, &["--idle-exit", IDLE_EXIT])?;
    wait_until_up(&mut daemon, start, &log).map(drop)
}

/// Starts an mgbd, detached from this terminal and this process group: it serves whoever comes later.
fn spawn(start: &Start<'_>, log: &Path, arguments: &[&str]) -> Result<Logged> {
    let mgbd = start.prefix.mgbd()?;
    let mut output = open(log)?;
    let from = output
        .seek(SeekFrom::End(0))
        .with_context(|| format!("failed to write {}", log.display()))?;
    let mut command = Command::new(&mgbd);
    command
        .args(arguments)
        .env("MGB_SOCKET", std::path::absolute(&start.socket)?)
        .current_dir("/");
    if let Some(policy) = start.policy {
        command.args(["--policy", &policy.to_string()]);
    }
    start.machine.apply(&mut command);
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
    Ok(Logged { child, from })
}

/// A daemon, and where its part of the log begins.
struct Logged {
    child: Child,
    from: u64,
}

fn wait_until_up(daemon: &mut Logged, start: &Start<'_>, log: &Path) -> Result<Client> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let ended = daemon.child.try_wait().context("failed to watch mgbd")?;
        // After looking whether it has ended: an mgbd that lost to another one leaves that one listening.
        match Client::observe(&start.socket) {
            Err(ConnectError::NotRunning(_)) => {}
            client => return client.map_err(way_out),
        }
        if let Some(status) = ended {
            let said = said_since(log, daemon.from);
            let why = if said.is_empty() { status.to_string() } else { said };
            return Err(
                anyhow!("{why}").context(format!("failed to start mgbd (its log is {})", log.display()))
            );
        }
        if Instant::now() > deadline {
            bail!(
                "failed to start mgbd: it does not answer at {} after {} s; see its log {}",
                start.socket.display(),
                START_LIMIT.as_secs(),
                log.display()
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An mgbd of this command's own, stopped when this is dropped.
pub struct Private {
    daemon: Logged,
}

impl Private {
    /// Starts one, and connects to it.
    pub fn start(start: &Start<'_>) -> Result<(Self, Client)> {
        let log = beside(&start.socket, ".log");
        let mut daemon = spawn(start, &log, &[])?;
        match wait_until_up(&mut daemon, start, &log) {
            Ok(client) => Ok((Self { daemon }, client)),
            Err(error) => {
                stop(&mut daemon.child);
                Err(error)
            }
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        stop(&mut self.daemon.child);
    }
}

/// As a user stops it, so that it stops its MPS as well; by force if that does not help.
fn stop(child: &mut Child) {
    const PATIENCE: Duration = Duration::from_secs(10);
    let signal = |signal| {
        if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
            // It has ended already: as wanted. The number is not reused before it is waited for.
            let _ = rustix::process::kill_process(pid, signal);
        }
    };
    signal(rustix::process::Signal::TERM);
    let deadline = Instant::now() + PATIENCE;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
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

fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.with_context(|| {
        format!(
            "failed to write {}; set MGB_SOCKET to a path in a folder of yours",
            path.display()
        )
    })
}
