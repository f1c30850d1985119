//! Finds mgbd, and starts it where none runs.
//!
//! A new mgbd is started by a helper process, `mgb start-mgbd`, that ends when mgbd answers: so mgbd is
//! not a child of the command, and a program that `mgb run` becomes never finds an mgbd among its own.

mod private;
mod start;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use mgb_interface::{Policy, Queue};
use mgb_probe::trust::folder_of;
use mgb_probe::{Client, ConnectError, socket_path};
use rustix::fs::Access;
use rustix::io::Errno;

use crate::machine::Machine;
use crate::prefix::Prefix;

pub use private::Private;
pub use start::start_detached;

/// How an mgbd is started.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// Where mgbd lies.
    pub prefix: &'a Prefix,
    /// The GPUs it shares.
    pub machine: &'a Machine,
    /// The policy that the user wants, if any.
    pub policy: Option<Policy>,
    /// The order of its queue that the user wants, if any.
    pub queue: Option<Queue>,
    /// Where it listens.
    pub socket: PathBuf,
    /// More variables for it.
    pub environment: Vec<(OsString, OsString)>,
    /// More options for it, where this process starts it itself.
    pub options: Vec<String>,
}

impl<'a> Start<'a> {
    /// The user's mgbd, which all their commands share.
    pub fn shared(
        prefix: &'a Prefix,
        machine: &'a Machine,
        policy: Option<Policy>,
        queue: Option<Queue>,
    ) -> Self {
        Self {
            policy,
            queue,
            ..Self::at(socket_path(), prefix, machine)
        }
    }

    /// An mgbd at a socket of its own, with the policy and the order that it has by itself.
    pub fn at(socket: PathBuf, prefix: &'a Prefix, machine: &'a Machine) -> Self {
        Self {
            prefix,
            machine,
            policy: None,
            queue: None,
            socket,
            environment: Vec::new(),
            options: Vec::new(),
        }
    }

    /// How mgbd is to share, as its options and those of `mgb start-mgbd` are spelled.
    fn sharing(&self) -> Vec<String> {
        let policy = self
            .policy
            .map(|policy| ["--policy".to_owned(), policy.to_string()]);
        let queue = self.queue.map(|queue| ["--queue".to_owned(), queue.to_string()]);
        policy.into_iter().chain(queue).flatten().collect()
    }
}

/// Connects to the mgbd of this socket, starting one if none runs. The connection only looks; it is no
/// client.
///
/// # Errors
/// When one runs under another policy or order than asked for, when it turns this user away, or when none can
/// be started.
pub fn ensure(start: &Start<'_>) -> Result<Client> {
    let client = match Client::observe(&start.socket) {
        Err(ConnectError::NotRunning(socket)) if is_read_only(folder_of(&socket)) => bail!(
            "no mgbd listens at {}, and none can be started here, where that folder is read-only, as containers have it: \
             start mgbd on the node",
            socket.display()
        ),
        Err(ConnectError::NotRunning(_)) => {
            start_by_helper(start)?;
            Client::observe(&start.socket).map_err(way_out)?
        }
        client => client.map_err(way_out)?,
    };
    let hello = client.hello();
    if let Some(wanted) = start.policy.filter(|wanted| wanted.to_string() != hello.policy) {
        bail!(
            "mgbd (pid {}) runs under the policy {}, not {wanted}: stop it with `mgb stop` (programs \
             that run go on), or leave --policy away",
            hello.mgbd_pid,
            hello.policy
        );
    }
    if let Some(wanted) = start.queue.filter(|wanted| wanted.to_string() != hello.queue) {
        bail!(
            "mgbd (pid {}) serves its queue {}, not {wanted}: stop it with `mgb stop` (programs \
             that run go on), or leave --queue away",
            hello.mgbd_pid,
            hello.queue
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

/// Whether a folder is on a file system, or a mount, that nobody writes here.
fn is_read_only(folder: &Path) -> bool {
    rustix::fs::access(folder, Access::WRITE_OK) == Err(Errno::ROFS)
}

fn start_by_helper(start: &Start<'_>) -> Result<()> {
    let mgb = start.prefix.mgb()?;
    let mut command = Command::new(&mgb);
    command
        .arg("start-mgbd")
        .env("MGB_SOCKET", &start.socket)
        .env("MGB_PREFIX", start.prefix.path());
    command.args(start.sharing());
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
