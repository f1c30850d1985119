//! `mgb cluster prolog`: what the environment of a Slurm task becomes, so that its programs run under the
//! node's mgbd. In the protocol of Slurm's TaskProlog; the SPANK plugin understands the same.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use mgb_probe::{Client, ConnectError, NODE_SOCKET, socket_path};
use mgb_scheduler::Policy;

use super::job::SlurmStep;
use crate::exit::{self, Outcome};
use crate::machine::Machine;
use crate::prefix::Prefix;
use crate::{daemon, out, policy, run};

/// A restart of mgbd takes less.
const PATIENCE: Duration = Duration::from_secs(3);

/// Say how a task of Slurm comes under the node's mgbd, in the protocol of TaskProlog (Slurm calls it).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In slurm.conf: TaskProlog=/usr/local/bin/mgb-task-prolog, a script with `exec /usr/local/bin/mgb cluster prolog`; or, \
without any right on the cluster, `srun --task-prolog=FILE`. The SPANK plugin calls it by itself. With MGB=off in its \
environment a job is left alone.

Exit code: 0. A job never fails for it: where there is no mgbd it is told so.")]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args) -> Outcome {
    if std::env::var_os("MGB").is_some_and(|value| value == "off") {
        return Ok(exit::OK);
    }
    match said() {
        Ok(text) => out::print(&text),
        Err(error) => out::print(&format!(
            "print mgb: this task runs without MGB: {}\n",
            one_line(&format!("{error:#}"))
        )),
    }
    Ok(exit::OK)
}

fn said() -> anyhow::Result<String> {
    let step = SlurmStep::of(|name| std::env::var(name).ok())
        .context("no SLURM_JOB_ID: this is no task of Slurm; use `mgb run`")?
        .context("SLURM_JOB_ID or SLURM_STEP_ID is no number")?;
    let prefix = Prefix::find()?;
    let (socket, client) = connect(PATIENCE)?;
    let hello = client.hello();
    if hello.policy.parse::<Policy>().is_ok_and(policy::places_processes) {
        return Err(anyhow!(
            "mgbd runs under the policy {}, which places whole processes: start those with `mgb run`",
            hello.policy
        ));
    }
    // mgbd has counted them already, and on a cluster's nodes they are the driver's.
    let gpus = u32::try_from(hello.gpus.len()).unwrap_or(u32::MAX);
    let machine = Machine::choose(&prefix, || Ok(gpus))?;
    let mut task = Command::new("task");
    run::under_mgbd(&machine, &prefix, &step.name(), &mut task)?;
    if socket != socket_path() {
        task.env("MGB_SOCKET", &socket);
    }
    Ok(protocol(task.get_envs()))
}

/// The mgbd of the user's choice, or else the node's: a socket that the job has brought along from where it
/// was submitted may not be there.
fn connect(patience: Duration) -> anyhow::Result<(PathBuf, Client)> {
    let until = Instant::now() + patience;
    let node = Path::new(NODE_SOCKET);
    let own = Some(socket_path()).filter(|own| own != node && own.exists());
    loop {
        let sockets = own.iter().map(PathBuf::as_path).chain([node]);
        let mut why = None;
        for socket in sockets {
            match Client::observe(socket) {
                Ok(client) => return Ok((socket.to_owned(), client)),
                Err(error) => why = Some(error),
            }
        }
        let error = why.context("no socket to look at")?;
        let may_come =
            matches!(error, ConnectError::NotRunning(_)) && node.parent().is_some_and(Path::exists);
        if !may_come || Instant::now() > until {
            return Err(match error {
                ConnectError::NotRunning(_) => anyhow!(
                    "no mgbd runs on this node (none listens at {NODE_SOCKET}), so nothing keeps its programs from \
                     running out of GPU memory; tell the administrator"
                ),
                error => daemon::way_out(error),
            });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Variables that Slurm can carry: a line each.
fn protocol<'a>(variables: impl Iterator<Item = (&'a OsStr, Option<&'a OsStr>)>) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        let name = name.to_string_lossy();
        // Writing to a String cannot fail.
        let _ = match value.map(OsStr::to_str) {
            Some(Some(value)) if !value.contains('\n') => writeln!(text, "export {name}={value}"),
            Some(_) => writeln!(
                text,
                "print mgb: {name} has a value that Slurm cannot carry, and stays as it is"
            ),
            None => writeln!(text, "unset {name}"),
        };
    }
    text
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_lines() {
        let mut command = Command::new("task");
        command.env("A", "b=c").env("D", "two\nlines").env_remove("E");
        assert_eq!(
            protocol(command.get_envs()),
            "export A=b=c\nprint mgb: D has a value that Slurm cannot carry, and stays as it is\nunset E\n"
        );
    }
}
