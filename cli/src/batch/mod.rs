//! `mgb batch`: many programs on shared GPUs.

pub mod auto;
pub mod cause;
pub mod engine;
pub mod job;
pub mod jobfile;
pub mod launch;
mod line;
mod lost;
pub mod outcome;
pub mod progress;
pub mod setup;
mod summary;
mod trace;

#[cfg(test)]
mod engine_tests;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mgb_command::daemon::{self, Start};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::machine::Machine;
use mgb_command::out;
use mgb_command::prefix::Prefix;
use mgb_interface::{Policy, Queue};
use mgb_probe::Client;
use outcome::BatchOutcome;
use progress::BatchProgress;
use setup::Setup;

use crate::parallel::Parallel;
use crate::policy;
use crate::stop::StopSignals;

/// Run the commands of a file on the GPUs that mgbd shares, so many at once, and sum up what came of them.
///
/// The file holds a command a line, with a shell's quotes; # begins a comment. No shell reads it: pipes, redirections, ;
/// && and variables are refused, except behind sh:, which has /bin/sh read the rest of the line. A line may begin with
/// need=SIZE: its process is one task of that size (see mgb run --need); with gpus=COUNT: it is placed on so many GPUs as
/// one (see mgb run --gpus); with deadline=TIME: when it is to have ended, such as 90s from the start of the
/// batch, or 18:30 (see mgb run --deadline); with class=latency: it goes before others (see mgb run
/// --latency); with share=PERCENT: it has at most that part of each GPU's multiprocessors (see mgb run
/// --share); and with NAME=VALUE, which sets a variable of the job's environment. Every program is looked
/// for before any is started. Each job's output goes to a log of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mgb batch jobs.txt
  mgb batch jobs.txt -j 8 --json > result.json

A job file:
  # two kinds of job
  ./train --epochs 3
  need=12GiB ./not-rebuilt input.dat
  gpus=2 torchrun --nproc-per-node 2 train.py
  SEED=7 ./train --epochs 3
  deadline=18:30 ./report
  sh: ./prepare input.dat | ./train > result.txt

Exit code: 0 if every job ended with 0, else 1; 2 for a job file with errors, 3 if mgbd cannot be had; 130 after Ctrl-C.")]
pub struct Args {
    /// The job file.
    file: PathBuf,
    /// How many jobs run at once at most, or auto: as many as the node can use, by the queue for GPU memory,
    /// the GPUs' load, cores and host memory [default: one per GPU under sa, N per GPU under cg:N, else
    /// auto].
    #[arg(short = 'j', long, value_name = "N|auto")]
    jobs: Option<Parallel>,
    #[arg(
        help = concat!("Policy for an mgbd that is started now: ", mgb_interface::policy_names!()),
        long,
        value_name = "POLICY"
    )]
    policy: Option<Policy>,
    /// The order in which tasks are served, for an mgbd that is started now: in-order, backfill,
    /// shortest, largest, or by deadlines edf or laxity.
    #[arg(long, value_name = "ORDER")]
    queue: Option<Queue>,
    /// Run jobs once more, one at a time after all others, whose GPU failed under them: under MPS a fault of
    /// one job ends all on its GPU. Their logs end in -again.
    #[arg(long)]
    again: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
    /// The folder for logs [default: the job file's name with .logs, numbered if there is one].
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let jobs = jobfile::read(&args.file).code(exit::USAGE)?;
    let prefix = Prefix::find().code(exit::NODE)?;
    let machine = Machine::find(&prefix).code(exit::NODE)?;
    machine.notice();
    let start = Start::shared(&prefix, &machine, args.policy, args.queue);
    daemon::ensure(&start).code(exit::NODE)?;
    // A client until the end: jobs come and go, and mgbd shall not take a gap for the end of its work.
    let client = Client::connect(&start.socket)
        .map_err(daemon::way_out)
        .code(exit::NODE)?;
    let hello = client.hello();
    let policy = hello.policy.parse().unwrap_or(Policy::Mgb);
    let parallel = args
        .jobs
        .unwrap_or_else(|| policy::default_parallel(policy, hello.gpus.len()));
    let logs = logs_folder(args).code(exit::USAGE)?;
    let trace = std::env::var_os("MGB_TRACE").map_or_else(|| logs.join("trace.jsonl"), PathBuf::from);
    let mgb = prefix.mgb().code(exit::NODE)?;
    let setup = Setup {
        mgb,
        machine: machine.clone(),
        environment: Vec::new(),
        parallel,
        auto: auto::AutoSettings {
            socket: start.socket.clone(),
            gpus: hello.gpus.len(),
            peaks: auto::peaks::Peaks::default(),
        },
        logs,
        trace,
        again: args.again,
    };
    let stop = StopSignals::watch().code(exit::NODE)?;
    let mut progress = BatchProgress::new(jobs.len());
    let ended = engine::run(&jobs, &setup, &stop, &mut progress);
    progress.finish();
    let (outcomes, makespan) = ended.code(exit::NODE)?;
    let batch = BatchOutcome::new(
        hello.policy.clone(),
        hello.gpus.len(),
        parallel,
        outcomes,
        makespan,
    );
    if args.json {
        out::print(&out::json(&batch).code(exit::NODE)?);
    } else {
        out::print(&format!(
            "\n{}logs in {}\n",
            summary::text(&batch),
            setup.logs.display()
        ));
    }
    let code = if batch.failed == 0 { exit::OK } else { exit::FAILED };
    Ok(stop.exit_code().filter(|_| batch.interrupted).unwrap_or(code))
}

/// The user's folder, or a fresh one: logs of an earlier batch are never overwritten unasked.
fn logs_folder(args: &Args) -> Result<PathBuf> {
    if let Some(folder) = &args.logs {
        fs::create_dir_all(folder)
            .with_context(|| format!("failed to make the folder {}", folder.display()))?;
        return Ok(std::path::absolute(folder)?);
    }
    let stem = args
        .file
        .file_stem()
        .unwrap_or(args.file.as_os_str())
        .to_string_lossy();
    fresh_folder(&stem).map_err(|error| error.context("choose another folder with --logs"))
}

fn fresh_folder(stem: &str) -> Result<PathBuf> {
    for number in 1.. {
        let name = if number == 1 {
            format!("{stem}.logs")
        } else {
            format!("{stem}.logs-{number}")
        };
        match fs::create_dir(&name) {
            Ok(()) => return Ok(std::path::absolute(Path::new(&name))?),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("failed to make the folder {name}")),
        }
    }
    unreachable!("the numbers do not end")
}
