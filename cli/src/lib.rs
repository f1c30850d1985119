//! The `mgb` command: compile, run and batch CUDA programs on shared GPUs.
//!
//! One file per command (`clang`, `run`, `batch`, …); what several use stands beside them.

#![cfg_attr(
    not(test),
    warn(
        clippy::print_stderr,
        clippy::print_stdout,
        reason = "both panic where nothing can be written"
    )
)]

mod args;
mod batch;
mod bench;
mod clang;
mod container;
mod cuda;
mod deadline;
mod demo;
mod doctor;
mod drain;
#[cfg(test)]
mod example;
mod explain;
#[cfg(fuzzing)]
pub mod fuzzing;
mod history;
mod kept;
mod legacy;
mod look;
mod manual;
mod markup;
mod measure;
mod metrics;
mod nvcc;
mod parallel;
mod parts;
mod policy;
mod program;
mod queue;
mod quota;
mod relocate;
mod run;
mod stale_socket;
mod start_mgbd;
mod status;
mod stop;
mod stop_mgbd;
mod suspend;
mod top;
mod trace;
mod traced;
mod user;
mod wait_evicted;
mod waits;
mod why;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use mgb_command::exit::CommandResult;
use mgb_slurm::{cluster, submit};

/// Runs the command that `arguments` (the program's name first) ask for.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let name = arguments.first().map_or_else(|| "mgb".into(), OsString::clone);
    let called = Path::new(&name)
        .file_name()
        .map(|file| file.to_string_lossy().into_owned());
    let (shown, outcome) = match (
        called.as_deref(),
        arguments.get(1).and_then(|first| first.to_str()),
    ) {
        (Some("mgb-clang"), _) => ("mgb-clang", clang::run(arguments[1..].to_vec(), false)),
        (Some("mgb-clang++"), _) => ("mgb-clang++", clang::run(arguments[1..].to_vec(), true)),
        (Some(clang::cmake::LINKER), _) => (clang::cmake::LINKER, clang::run(arguments[1..].to_vec(), true)),
        (Some("mgb-nvcc"), _) => ("mgb-nvcc", nvcc::run(arguments[1..].to_vec())),
        // What Slurm calls takes no arguments of its configuration.
        (Some(called), None) if cluster::called(called).is_some() => {
            dispatch(Cli::parse_from(cluster::called(called).into_iter().flatten()))
        }
        // Before clap: every option, --help too, is the compiler's.
        (_, Some("clang")) => ("mgb clang", clang::run(arguments[2..].to_vec(), false)),
        (_, Some("clang++")) => ("mgb clang++", clang::run(arguments[2..].to_vec(), true)),
        (_, Some("nvcc")) => ("mgb nvcc", nvcc::run(arguments[2..].to_vec())),
        _ => dispatch(Cli::parse_from(arguments)),
    };
    ExitCode::from(outcome.unwrap_or_else(|failure| {
        mgb_command::tell!("{shown}: {failure}");
        failure.code
    }))
}

fn dispatch(cli: Cli) -> (&'static str, CommandResult) {
    match cli.command {
        Command::Clang(args) => ("mgb clang", clang::run(args.arguments, false)),
        Command::ClangCxx(args) => ("mgb clang++", clang::run(args.arguments, true)),
        Command::Nvcc(args) => ("mgb nvcc", nvcc::run(args.arguments)),
        Command::Run(args) => ("mgb run", run::run(&args)),
        Command::Batch(args) => ("mgb batch", batch::run(&args)),
        Command::Submit(args) => ("mgb submit", queue::submit(&args)),
        Command::Queue(args) => ("mgb queue", queue::run(&args)),
        Command::WatchJob(args) => ("mgb watch-job", queue::watch_job(&args)),
        Command::Status(args) => ("mgb status", status::run(&args)),
        Command::Top(args) => ("mgb top", top::run(&args)),
        Command::Trace(args) => ("mgb trace", trace::run(&args)),
        Command::History(args) => ("mgb history", history::run(&args)),
        Command::Metrics(args) => ("mgb metrics", metrics::run(&args)),
        Command::Why(args) => ("mgb why", why::run(&args)),
        Command::Quota(args) => ("mgb quota", quota::run(&args)),
        Command::Doctor(args) => ("mgb doctor", doctor::run(&args)),
        Command::Explain(args) => ("mgb explain", explain::run(&args)),
        Command::Bench(args) => ("mgb bench", bench::run(&args)),
        Command::Demo(args) => ("mgb demo", demo::run(&args)),
        Command::Completions(args) => ("mgb completions", manual::completions(&args, Cli::command())),
        Command::Man(args) => ("mgb man", manual::man(&args, Cli::command())),
        Command::Suspend(args) => ("mgb suspend", suspend::suspend(&args)),
        Command::Resume(args) => ("mgb resume", suspend::resume(&args)),
        Command::Move(args) => ("mgb move", relocate::run(&args)),
        Command::Drain(args) => ("mgb drain", drain::run(&args)),
        Command::Stop(args) => ("mgb stop", stop_mgbd::run(&args)),
        Command::Container(args) => ("mgb container", container::run(&args)),
        Command::Cluster(args) => ("mgb cluster", cluster::run(&args)),
        Command::Sbatch(args) => (
            "mgb sbatch",
            submit::run(submit::Tool::Sbatch, &args, explain::constant_need),
        ),
        Command::Srun(args) => (
            "mgb srun",
            submit::run(submit::Tool::Srun, &args, explain::constant_need),
        ),
        Command::Salloc(args) => (
            "mgb salloc",
            submit::run(submit::Tool::Salloc, &args, explain::constant_need),
        ),
        Command::StartMgbd(args) => ("mgb start-mgbd", start_mgbd::run(&args)),
    }
}
