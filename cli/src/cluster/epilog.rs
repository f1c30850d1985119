//! `mgb cluster epilog`: what a job took of this node's GPUs goes into Slurm's accounting, as its
//! AdminComment.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mgb_probe::view::JobView;
use mgb_probe::{Client, NODE_SOCKET};

use super::late;
use crate::exit::{self, Outcome, WithCode};
use crate::slurm::record::{self, Record};
use crate::{daemon, out, slurm};

/// How often it is tried: other nodes of the job write theirs into the same comment.
const TRIES: u32 = 8;
/// The most that one try counts for in the pause after it: Slurm gives an epilog little time.
const LONGEST_STEP: Duration = Duration::from_millis(500);

/// Before the accounting is asked again for a job that it does not know yet.
const UNKNOWN_PAUSE: Duration = Duration::from_millis(100);
/// What sacct says where no slurmdbd is configured.
const NO_ACCOUNTING: &str = "accounting storage is disabled";

/// Record what a job took of this node's GPUs, in Slurm's accounting (Slurm calls it, as root).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In slurm.conf: Epilog=/usr/local/bin/mgb-epilog. The SPANK plugin calls it by itself. `sacct -o JobID,AdminComment%60` \
shows what it has written: `mgb{n1 peak_mib=12 gpu_peak_mib=12 waited=0.50s held=2.10s tasks=1}`.

Exit code: 0. A job or node never fails for it.")]
pub struct Args {
    /// The job [default: SLURM_JOB_ID].
    #[arg(long, value_name = "NUMBER")]
    job: Option<u32>,
    /// Print it, and record nothing.
    #[arg(long)]
    print: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let job = args
        .job
        .or_else(|| std::env::var("SLURM_JOB_ID").ok()?.parse().ok());
    let job = job.context("no --job and no SLURM_JOB_ID").code(exit::USAGE)?;
    let Some(taken) = taken(job).code(exit::OK)? else {
        return Ok(exit::OK);
    };
    let node = slurm::node_name();
    let record = Record::of(&node, &taken);
    if args.print {
        out::print(&format!(
            "{}\n",
            record::comment("", std::slice::from_ref(&record))
        ));
        return Ok(exit::OK);
    }
    // Kept before it is tried: an epilog that takes long is ended. Slurm drains the node of one that fails.
    let late = Path::new(late::FOLDER);
    let kept = late::keep(late, job, &record);
    match write(job, &record) {
        Ok(()) => late::forget(late, job),
        Err(why) if why.to_string().contains(NO_ACCOUNTING) => late::forget(late, job),
        Err(why) => {
            eprintln!("mgb cluster epilog: {why:#}; mgb cluster health writes it later");
            kept.code(exit::OK)?;
        }
    }
    Ok(exit::OK)
}

/// What mgbd knows of the job; `None`: it took nothing.
fn taken(job: u32) -> anyhow::Result<Option<JobView>> {
    let client = Client::observe(Path::new(NODE_SOCKET)).map_err(daemon::way_out)?;
    let view = client.status()?;
    Ok(view.jobs.into_iter().find(|view| view.job == job))
}

/// Has it in the job's record, beside what others have written there.
pub fn write(job: u32, record: &Record) -> anyhow::Result<()> {
    let number = job.to_string();
    let which = format!("jobid={number}");
    let read = || {
        slurm::run(
            "sacct",
            &["-n", "-P", "-X", "-D", "-j", &number, "-o", "NNodes,AdminComment"],
        )
    };
    let set = |comment: &str| {
        let set = format!("AdminComment={comment}");
        slurm::run(
            "sacctmgr",
            &["-i", "-Q", "modify", "job", "where", &which, "set", &set],
        )?;
        Ok(())
    };
    add(record, read, set, std::thread::sleep)
}

/// Adds the record to a comment that `read` and `set` have, until it stays there.
fn add(
    record: &Record,
    mut read: impl FnMut() -> anyhow::Result<String>,
    mut set: impl FnMut(&str) -> anyhow::Result<()>,
    mut wait: impl FnMut(Duration),
) -> anyhow::Result<()> {
    for _ in 0..TRIES {
        let began = Instant::now();
        let said = read()?;
        if said.trim().is_empty() {
            // slurmdbd hears of jobs from slurmctld: a moment late, and seconds where one of them was away.
            wait(UNKNOWN_PAUSE);
            continue;
        }
        let (nodes, before) = last_run(&said);
        let mut records = record::read(before);
        if records.contains(record) {
            return Ok(());
        }
        records.retain(|other| other.node != record.node);
        records.push(record.clone());
        // Slurm takes quotes for its own.
        set(&record::comment(before, &records).replace(['"', '\''], "`"))?;
        if nodes == Some(1) {
            return Ok(());
        }
        // Another node may have read the comment before, and write it back without this record. It has done
        // so after about the time that this node took for the same; the next look is later than that. Nodes
        // that began together are to come apart.
        let apart = 1.0 + f64::from(std::process::id() % 10) / 5.0;
        wait(began.elapsed().min(LONGEST_STEP).mul_f64(apart) + Duration::from_millis(20));
    }
    bail!("Slurm's accounting does not know the job yet, or not what it took here")
}

/// The nodes and the comment of a job's last run, of several where it was requeued.
fn last_run(said: &str) -> (Option<u32>, &str) {
    let line = said.lines().next_back().unwrap_or("");
    let (nodes, comment) = line.split_once('|').unwrap_or(("", line));
    (nodes.trim().parse().ok(), comment)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn record(node: &str) -> Record {
        Record::of(node, &JobView::default())
    }

    /// What stands in the comment of a job of three nodes, in the end.
    fn added(between: impl Fn(u32, &mut String)) -> (String, u32) {
        let comment = RefCell::new(String::new());
        let mut looks = 0;
        let read = || Ok(format!("3|{}\n", comment.borrow()));
        let set = |text: &str| {
            *comment.borrow_mut() = text.to_owned();
            Ok(())
        };
        let wait = |_| {
            between(looks, &mut comment.borrow_mut());
            looks += 1;
        };
        let is_there = add(&record("n2"), read, set, wait).is_ok();
        assert_eq!(is_there, comment.borrow().contains("n2"));
        (comment.into_inner(), looks)
    }

    #[test]
    fn a_record_that_another_node_writes_over_is_written_again() {
        let of =
            |nodes: &[&str]| record::comment("", &nodes.iter().map(|node| record(node)).collect::<Vec<_>>());
        assert_eq!(added(|_, _| ()), (of(&["n2"]), 1));
        let (comment, looks) = added(|at, comment| {
            if at < 2 {
                *comment = of(&["n1", "n3"]);
            }
        });
        assert_eq!((comment, looks), (of(&["n1", "n3", "n2"]), 3));
        let (_, looks) = added(|_, comment| comment.clear());
        assert_eq!(looks, TRIES, "it gives up");
    }

    #[test]
    fn a_job_may_be_known_later() {
        let is_set = Cell::new(false);
        let known_after = |looks: u32| {
            let mut looked = 0;
            let read = || {
                looked += 1;
                Ok(if looked > looks { "1|\n" } else { "\n" }.to_owned())
            };
            let set = |_: &str| {
                is_set.set(true);
                Ok(())
            };
            add(&record("n2"), read, set, |_| ())
        };
        let error = known_after(TRIES).unwrap_err();
        assert!(error.to_string().contains("does not know the job yet") && !is_set.get());
        assert!(known_after(TRIES - 1).is_ok() && is_set.get());
    }

    #[test]
    fn the_last_run_counts() {
        assert_eq!(last_run("1|a\n3|mgb{n1 x=1}\n"), (Some(3), "mgb{n1 x=1}"));
        assert_eq!(last_run("1|\n"), (Some(1), ""));
        assert_eq!(last_run(""), (None, ""));
    }
}
