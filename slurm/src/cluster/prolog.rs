//! `mgb cluster prolog`: what the environment of a Slurm task becomes, so that its programs run under the
//! node's mgbd. In the protocol of Slurm's TaskProlog; the SPANK plugin understands the same.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use mgb_command::exit::{self, CommandResult};
use mgb_command::frameworks::under_mgbd;
use mgb_command::machine::Machine;
use mgb_command::prefix::Prefix;
use mgb_command::{daemon, out};
use mgb_interface::Policy;
use mgb_probe::site::{self, WithoutMgbd};
use mgb_probe::{Client, ConnectError, NODE_SOCKET, socket_path};

use super::job::SlurmStep;

const MGB: &str = "MGB";
/// A restart of mgbd takes less, and so does an answer of one that is not stopped.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// Between two looks whether there is an mgbd.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Say how a task of Slurm comes under the node's mgbd, in the protocol of TaskProlog (Slurm calls it).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In slurm.conf: TaskProlog=/usr/local/bin/mgb-task-prolog, a script with `exec /usr/local/bin/mgb cluster prolog`; or, \
without any right on the cluster, `srun --task-prolog=FILE`. The SPANK plugin calls it by itself. With MGB=off in its \
environment a job is left alone.

Exit code: 0. A job never fails for it: where there is no mgbd it is told so. With `without-mgbd = \"refuse\"` in \
/etc/mgb/client.toml its programs end at their first use of a GPU then.")]
pub struct Args {
    /// How long it may take to reach mgbd, in milliseconds: less than whoever waits for this command.
    #[arg(long, value_name = "MS", default_value_t = CONNECT_TIMEOUT.as_millis() as u64)]
    within: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    if std::env::var_os(MGB).is_some_and(|value| value == "off") {
        return Ok(exit::OK);
    }
    let step = match step() {
        Ok(step) => step,
        Err(error) => {
            out::print(&without("runs without MGB", &error));
            return Ok(exit::OK);
        }
    };
    match said(step, Duration::from_millis(args.within)) {
        Ok(text) => out::print(&text),
        Err(error) if site::without_mgbd() == Ok(WithoutMgbd::Native) => {
            out::print(&without("runs without MGB", &error));
        }
        Err(error) => {
            out::print(&without("has no GPU until mgbd is there", &error));
            out::print(&refusing(step).unwrap_or_else(|_| format!("export {MGB}=require\n")));
        }
    }
    Ok(exit::OK)
}

/// What becomes of the task, and why.
fn without(what: &str, error: &anyhow::Error) -> String {
    format!(
        "print mgb: this task {what}: {}\n",
        one_line(&format!("{error:#}"))
    )
}

fn step() -> anyhow::Result<SlurmStep> {
    SlurmStep::of(|name| std::env::var(name).ok())
        .context("no SLURM_JOB_ID: this is no task of Slurm; use `mgb run`")?
        .context("SLURM_JOB_ID or SLURM_STEP_ID is no number")
}

/// The environment in which programs ask for mgbd and do not run without.
fn refusing(step: SlurmStep) -> anyhow::Result<String> {
    let prefix = Prefix::find()?;
    // How many GPUs there are is for mgbd to say.
    let machine = Machine::choose(&prefix, || Ok(u32::MAX))?;
    let mut task = Command::new("task");
    under_mgbd(&machine, &prefix, &step.name(), &mut task)?;
    task.env(MGB, "require");
    Ok(protocol(task.get_envs()))
}

fn said(step: SlurmStep, within: Duration) -> anyhow::Result<String> {
    let prefix = Prefix::find()?;
    let (socket, client) = connect(within)?;
    let hello = client.hello();
    if hello
        .policy
        .parse::<Policy>()
        .is_ok_and(|policy| policy.places_processes())
    {
        return Err(anyhow!(
            "mgbd runs under the policy {}, which places whole processes: start those with `mgb run`",
            hello.policy
        ));
    }
    // mgbd has counted them already, and on a cluster's nodes they are the driver's.
    let gpus = u32::try_from(hello.gpus.len()).unwrap_or(u32::MAX);
    let machine = Machine::choose(&prefix, || Ok(gpus))?;
    let mut task = Command::new("task");
    under_mgbd(&machine, &prefix, &step.name(), &mut task)?;
    if socket != socket_path() {
        task.env("MGB_SOCKET", &socket);
    }
    Ok(protocol(task.get_envs()))
}

/// The mgbd of the user's choice, or else the node's: a socket that the job has brought along from where it
/// was submitted may not be there.
fn connect(within: Duration) -> anyhow::Result<(PathBuf, Client)> {
    let until = Instant::now() + within;
    let node = Path::new(NODE_SOCKET);
    let own = Some(socket_path()).filter(|own| own != node && own.exists());
    loop {
        let sockets: Vec<&Path> = own.iter().map(PathBuf::as_path).chain([node]).collect();
        let mut why = None;
        for (socket, others) in sockets.iter().copied().zip((1..=sockets.len() as u32).rev()) {
            // One that does not answer leaves its part to the others.
            let left = until.saturating_duration_since(Instant::now());
            match Client::observe_within(socket, left / others) {
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
        std::thread::sleep(LOOK_INTERVAL);
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
