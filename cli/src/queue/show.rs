//! `mgb queue list`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use clap::Args;
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_command::out;
use mgb_command::table::{Table, plural, seconds};
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::TaskView;
use mgb_probe::{Client, socket_path};
use mgb_queue::id::JobId;
use mgb_queue::protocol::{ListedJob, Listing};
use mgb_queue::record::{FailureKind, JobRecord, JobState};
use mgb_queue::watcher::now;
use rustix::process::{Pid, getpgid};

use super::connect;
use super::select::Which;

/// Show jobs: all that have not ended, unless some are named.
#[derive(Debug, Default, Args)]
pub struct List {
    #[command(flatten)]
    which: Which,
    /// Those that have ended as well.
    #[arg(short, long)]
    all: bool,
    /// What they took as well: memory, processor time, evictions, moves.
    #[arg(short, long)]
    wide: bool,
    /// Print everything that is known as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn list(args: &List) -> CommandResult {
    let mut listing = connect::listing(args.which.filter())?;
    let ended = |listed: &&ListedJob| listed.job.state.is_final();
    let left_out = match args.which.is_all() && !args.all {
        true => listing.jobs.iter().filter(ended).count(),
        false => 0,
    };
    if left_out > 0 {
        listing.jobs.retain(|listed| !listed.job.state.is_final());
    }
    if args.json {
        out::print(&json(&listing)?);
        return Ok(exit::OK);
    }
    let mut text = String::new();
    if listing.jobs.is_empty() {
        text.push_str("no jobs\n");
    } else {
        text.push_str(&table(&listing, &tasks_of(&listing), args.wide));
    }
    // Writing to a String cannot fail.
    if left_out > 0 {
        let _ = writeln!(text, "\n{} ended (mgb queue list --all)", plural(left_out, "job"));
    }
    if listing.settings.is_paused {
        text.push_str("\nthe queue is paused: `mgb queue resume` has it start jobs\n");
    }
    if let Some(trouble) = &listing.trouble {
        let _ = writeln!(text, "\nno job is started: {trouble}");
    }
    out::print(&text);
    Ok(exit::OK)
}

/// The document that scripts read.
pub fn json(listing: &Listing) -> Result<String, Failure> {
    out::json(listing).code(exit::NODE)
}

/// A line a job; elements of an array that wait for the same share one. Jobs that run are where these tasks of
/// mgbd's are.
pub fn table(listing: &Listing, tasks: &[TaskView], wide: bool) -> String {
    let first = ["job", "state", "gpu", "ran"];
    let more: &[&str] = if wide {
        &["waited", "peak", "cpu", "evicted", "moves", "pid"]
    } else {
        &[]
    };
    let head = [&first[..], more, &["name", "command"]].concat();
    let places = where_they_run(listing, tasks);
    let mut table = Table::new(
        &head,
        &["ran", "waited", "peak", "cpu", "evicted", "moves", "pid"],
    );
    let mut rows = listing.jobs.iter().peekable();
    while let Some(listed) = rows.next() {
        let mut last = listed;
        let is_alike = |next: &&ListedJob| {
            next.job.id.number == listed.job.id.number
                && matches!(listed.job.state, JobState::Queued | JobState::Held)
                && (next.job.state, &next.waits_for) == (listed.job.state, &listed.waits_for)
        };
        while let Some(next) = rows.next_if(|next| is_alike(next)) {
            last = next;
        }
        let id = match last.job.id.index.filter(|_| last.job.id != listed.job.id) {
            Some(index) => format!("{}-{index}", listed.job.id),
            None => listed.job.id.to_string(),
        };
        table.row(row(id, listed, places.get(&listed.job.id), wide));
    }
    let mut text = table.to_string();
    for listed in &listing.jobs {
        let evidence = listed
            .job
            .attempts
            .last()
            .and_then(|last| last.found.failure.as_ref());
        let evidence = evidence.and_then(|failure| failure.evidence.as_ref());
        if let Some(evidence) = evidence.filter(|_| listed.job.state == JobState::Failed) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "job {}: {evidence}", listed.job.id);
        }
    }
    text
}

/// What mgbd knows now, if any job runs.
pub fn tasks_of(listing: &Listing) -> Vec<TaskView> {
    let view = || Client::observe(&socket_path()).ok()?.status().ok();
    let any_runs = listing.jobs.iter().any(|listed| listed.pid.is_some());
    any_runs
        .then(view)
        .flatten()
        .map_or_else(Vec::new, |view| view.tasks)
}

/// The GPUs of jobs that run: none of a job that mgbd does not know.
fn where_they_run(listing: &Listing, tasks: &[TaskView]) -> BTreeMap<JobId, Vec<u32>> {
    let running = listing
        .jobs
        .iter()
        .filter_map(|listed| Some((listed.job.id, listed.pid?)));
    let running: Vec<(JobId, u32)> = running.collect();
    if running.is_empty() {
        return BTreeMap::new();
    }
    // A job is a group of processes, by the number of its first.
    let group = |task: &TaskView| {
        let group = getpgid(Pid::from_raw(task.pid.cast_signed())).ok()?;
        Some((group.as_raw_nonzero().get().cast_unsigned(), task.gpu))
    };
    let tasks: Vec<(u32, u32)> = tasks.iter().filter_map(group).collect();
    let of = |pid: u32| {
        let gpus = tasks.iter().filter(|(group, _)| *group == pid);
        let gpus: BTreeSet<u32> = gpus.map(|(_, gpu)| *gpu).collect();
        gpus.into_iter().collect::<Vec<u32>>()
    };
    running.into_iter().map(|(id, pid)| (id, of(pid))).collect()
}

fn row(id: String, listed: &ListedJob, place: Option<&Vec<u32>>, wide: bool) -> Vec<String> {
    let job = &listed.job;
    let dash = || "-".to_owned();
    let last = job.attempts.last().filter(|_| job.state != JobState::Queued);
    let gpus = place.or(last.map(|last| &last.found.gpus));
    let gpus = gpus.map_or_else(String::new, |gpus| {
        let gpus: Vec<String> = gpus.iter().map(u32::to_string).collect();
        gpus.join(",")
    });
    let ran = last.map(|last| last.ended.unwrap_or_else(now) - last.started);
    let span = |span: Option<f64>| {
        let span = span.and_then(|span| std::time::Duration::try_from_secs_f64(span).ok());
        span.map_or_else(dash, seconds)
    };
    let cells = [
        id,
        state(listed),
        if gpus.is_empty() { dash() } else { gpus },
        span(ran),
    ];
    let more = || {
        let ended = last.filter(|last| last.ended.is_some());
        let peak = ended.and_then(|last| last.found.peak_bytes);
        let count = |count: Option<u64>| count.map_or_else(dash, |count| count.to_string());
        [
            span(ended.map(|last| last.found.waited_s)),
            peak.map_or_else(dash, |bytes| Bytes(bytes).to_string()),
            span(ended.map(|last| last.cpu_s)),
            count(ended.map(|last| last.found.evictions)),
            count(ended.map(|last| last.found.moves)),
            listed.pid.map_or_else(dash, |pid| pid.to_string()),
        ]
    };
    let tail = [job.shown_name(), job.spec.text.clone()];
    cells
        .into_iter()
        .chain(wide.then(more).into_iter().flatten())
        .chain(tail)
        .collect()
}

/// Where it stands, and what for it waits, or failed.
fn state(listed: &ListedJob) -> String {
    let job = &listed.job;
    let name = job.state.name();
    match (job.state, &listed.waits_for) {
        (JobState::Queued, Some(reason)) => match retried(job) {
            Some(again) => format!("{again}, waits for {reason}"),
            None => format!("waits for {reason}"),
        },
        (JobState::Running, _) if job.is_cancelled => "ending".to_owned(),
        (JobState::Failed, _) => {
            let last = job.attempts.last();
            let kind = last
                .and_then(|last| last.found.failure.as_ref())
                .map(|failure| failure.kind);
            let how = match (
                kind,
                last.and_then(|last| last.exit_code),
                last.and_then(|last| last.signal),
            ) {
                (Some(FailureKind::Exit), Some(code), _) => format!("exit code {code}"),
                (Some(FailureKind::Signal), _, Some(signal)) => crate::batch::cause::signal_name(signal),
                (kind, ..) => FailureKind::ALL
                    .iter()
                    .find(|(_, one)| Some(*one) == kind)
                    .map_or_else(|| name.to_owned(), |(word, _)| word.replace('-', " ")),
            };
            format!("failed ({how})")
        }
        _ => name.to_owned(),
    }
}

/// That it has run before, and is to run again.
fn retried(job: &JobRecord) -> Option<String> {
    let count = job.attempts.len();
    (count > 0).then(|| {
        format!(
            "failed {}",
            if count == 1 {
                "once".to_owned()
            } else {
                format!("{count} times")
            }
        )
    })
}
