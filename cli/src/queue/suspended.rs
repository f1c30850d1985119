//! `mgb queue pause` and `mgb queue resume`: of the queue, or of jobs.

use anyhow::{Context, Result};
use clap::Args;
use mgb_command::daemon;
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::out;
use mgb_probe::{Changed, Client, OrderError, Processes, socket_path};
use mgb_queue::attempt::AttemptFolder;
use mgb_queue::id::JobId;
use mgb_queue::protocol::{JobFilter, ListedJob, Request};
use mgb_queue::record::JobState;

use super::select::Which;
use super::serve::name_of;
use super::{change, connect, wait};

/// Start no more jobs; or, of jobs that are named, hold those that wait and have those that run leave the GPUs.
///
/// A job that runs is suspended as mgb suspend does: its memory goes to the host, and it waits at its next call
/// that needs a GPU.
#[derive(Debug, Args)]
pub struct PauseJobs {
    #[command(flatten)]
    which: Which,
}

/// Start jobs again; or let jobs go on that were paused.
#[derive(Debug, Args)]
pub struct ResumeJobs {
    #[command(flatten)]
    which: Which,
}

/// Runs `mgb queue pause`.
pub fn pause(args: &PauseJobs) -> CommandResult {
    if args.which.is_all() {
        return set(true);
    }
    let filter = args.which.filter();
    wait::some(&filter)?;
    let held = connect::changed(&Request::Hold(filter.clone()))?;
    let suspended = each_running(&filter, |client, job| client.suspend(Processes::Job(job)))?;
    Ok(change::say(&[held, suspended].concat(), "paused"))
}

/// Runs `mgb queue resume`.
pub fn resume(args: &ResumeJobs) -> CommandResult {
    if args.which.is_all() {
        return set(false);
    }
    let filter = args.which.filter();
    wait::some(&filter)?;
    let released = connect::changed(&Request::Release(filter.clone()))?;
    let resumed = each_running(&filter, |client, job| client.resume(Processes::Job(job)))?;
    Ok(change::say(&[released, resumed].concat(), "resumed"))
}

fn set(is_paused: bool) -> CommandResult {
    connect::changed(&Request::Settings {
        is_paused: Some(is_paused),
        places: None,
    })?;
    out::print(match is_paused {
        true => "the queue starts no more jobs; those that run go on\n",
        false => "the queue starts jobs\n",
    });
    Ok(exit::OK)
}

/// Orders something of each job that runs; returns those of which mgbd knows processes.
fn each_running(
    filter: &JobFilter,
    order: impl Fn(&Client, u64) -> Result<Changed, OrderError>,
) -> Result<Vec<JobId>, exit::Failure> {
    let listing = connect::listing(filter.clone())?;
    let running = listing
        .jobs
        .iter()
        .filter(|listed| listed.job.state == JobState::Running);
    let running: Vec<&ListedJob> = running.collect();
    if running.is_empty() {
        return Ok(Vec::new());
    }
    let client = Client::observe(&socket_path())
        .map_err(daemon::way_out)
        .code(exit::NODE)?;
    let mut done = Vec::new();
    for listed in running {
        let name = name_in(listed).code(exit::NODE)?;
        let Some(number) = mgb_probe::job_number(&name) else {
            continue;
        };
        let changed = order(&client, number);
        changed
            .with_context(|| format!("failed for job {}", listed.job.id))
            .code(exit::NODE)?;
        done.push(listed.job.id);
    }
    Ok(done)
}

/// By what mgbd knows a job.
fn name_in(listed: &ListedJob) -> Result<String> {
    let log = listed.log.as_ref().context("a job that runs without a log")?;
    let folder = log.parent().context("a log without a folder")?;
    name_of(&AttemptFolder::at(folder.to_owned()))
}
