//! `mgb trace`: what happens on the node, as a file that Perfetto shows.

mod programs;
mod recorder;
mod slices;
mod trace_file;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_command::table::plural;
use mgb_probe::{Client, clock, socket_path};
use rustix::process::{Pid, Signal};

use self::recorder::Recorder;
use crate::look::connect;
use crate::program;
use crate::stop::StopSignals;

/// Between two looks: mgbd writes its view that often while somebody looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(25);
/// The longest recording: a year.
const MAX_SECONDS: u64 = 365 * 24 * 3600;
/// The variable that has programs write down what they did.
const MGB_TRACE: &str = "MGB_TRACE";

const HELP: &str = "\
Examples:
  mgb trace -- mgb batch jobs.txt       writes mgb-trace.json while the batch runs
  mgb trace -o night.json --for 600     writes what the node does for ten minutes
  mgb trace -o now.json                 until ctrl-c

Open the file at https://ui.perfetto.dev, which reads it in the browser and sends it nowhere. Each GPU has its memory and load as \
counters, and when it had work; each process has its tasks with what they do, what it waits for, when its launches are held, \
and its work. These are looked at every 25 ms. Programs that the command starts, and no `mgb` took off MGB_TRACE, write down to \
the nanosecond when they had room and when their memory moved.

Exit code: that of the command; 0 without one; 1 if the file cannot be written; 3 if no mgbd answers.";

/// Record what happens on the node for Perfetto: tasks, waits, evictions, holds, work, memory.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The file that is written.
    #[arg(short, long, value_name = "FILE", default_value = "mgb-trace.json")]
    output: PathBuf,
    /// End after so many seconds.
    #[arg(long = "for", value_name = "SECONDS", conflicts_with = "command",
        value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    seconds: Option<u64>,
    /// A command: it is recorded until it ends.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let stop = StopSignals::watch().code(exit::FAILED)?;
    if args.command.is_empty() {
        let client = connect(&socket_path()).code(exit::NODE)?;
        let mut recorder = Recorder::create(&args.output, clock::nanoseconds()).code(exit::FAILED)?;
        mgb_command::tell!(
            "mgb trace: recording to {}; ctrl-c ends it",
            args.output.display()
        );
        let limit = args
            .seconds
            .map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let is_over = || stop.take() > 0 || limit.is_some_and(|limit| Instant::now() >= limit);
        watch(&mut recorder, Some(client), || Ok(is_over())).code(exit::FAILED)?;
        said(&args.output, recorder).code(exit::FAILED)?;
        return Ok(exit::OK);
    }
    let mut recorder = Recorder::create(&args.output, clock::nanoseconds()).code(exit::FAILED)?;
    let status = record_command(args, &mut recorder, &stop)?;
    let saw_node = recorder.saw_node();
    said(&args.output, recorder).code(exit::FAILED)?;
    if !saw_node {
        mgb_command::tell!(
            "mgb trace: no mgbd answered while the command ran: the file has nothing of the node"
        );
    }
    let of_signal = || {
        status
            .signal()
            .map_or(i32::from(exit::FAILED), |signal| 128 + signal)
    };
    Ok(status.code().unwrap_or_else(of_signal) as u8)
}

/// Looks again and again until it is over. Where mgbd is away, the next look tries to reach it.
fn watch(
    recorder: &mut Recorder,
    mut client: Option<Client>,
    mut is_over: impl FnMut() -> Result<bool>,
) -> Result<()> {
    loop {
        let ends = is_over()?;
        let view = client.as_ref().and_then(|client| client.status().ok());
        match view {
            Some(view) => recorder.saw(clock::nanoseconds(), &view)?,
            None => {
                recorder.lost(clock::nanoseconds())?;
                client = connect(&socket_path()).ok();
            }
        }
        if ends {
            return Ok(());
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

fn record_command(args: &Args, recorder: &mut Recorder, stop: &StopSignals) -> Result<ExitStatus, Failure> {
    let name = args.command[0].to_string_lossy();
    let file = program::find(&name).code(exit::USAGE)?;
    // A file of the user's own is read from where it ends now, and stays.
    let own = std::env::var_os(MGB_TRACE).map(PathBuf::from);
    let folder = tempfile::tempdir()
        .context("failed to make a folder for traces")
        .code(exit::FAILED)?;
    let traces = own.unwrap_or_else(|| folder.path().join("programs.jsonl"));
    let from = std::fs::metadata(&traces).map_or(0, |file| file.len());
    let mut child = Command::new(&file)
        .args(&args.command[1..])
        .env(MGB_TRACE, &traces)
        .spawn()
        .with_context(|| format!("failed to run {}", file.display()))
        .code(exit::USAGE)?;
    let mut status = None;
    let watched = watch(recorder, connect(&socket_path()).ok(), || {
        if stop.take() > 0 {
            forward(stop, &child);
        }
        status = child.try_wait().context("failed to watch the command")?;
        Ok(status.is_some())
    });
    let status = match (watched, status) {
        (Ok(()), Some(status)) => status,
        (watched, _) => {
            // The command goes on; what was recorded ends here.
            let ended = child.wait().context("failed to watch the command");
            watched.code(exit::FAILED)?;
            ended.code(exit::FAILED)?
        }
    };
    programs::add(recorder, &traces, from).code(exit::FAILED)?;
    Ok(status)
}

/// Passes a signal on to the command, which has had a ctrl-c from the terminal itself.
fn forward(stop: &StopSignals, child: &Child) {
    let signal = stop.exit_code().map(|code| i32::from(code) - 128);
    let signal = signal.and_then(Signal::from_named_raw);
    if let Some(signal) = signal.filter(|signal| *signal != Signal::INT) {
        // It may have ended.
        let _ = rustix::process::kill_process(Pid::from_child(child), signal);
    }
}

fn said(output: &Path, recorder: Recorder) -> Result<()> {
    let events = recorder
        .finish()
        .map_err(|error| anyhow!(error).context(format!("failed to write {}", output.display())))?;
    mgb_command::tell!(
        "mgb trace: {} in {}; open it at https://ui.perfetto.dev",
        plural(events, "event"),
        output.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests;
