//! `mgb cluster epilog`: what a job took of this node's GPUs goes into Slurm's accounting, as its
//! AdminComment.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use mgb_probe::view::JobView;
use mgb_probe::{Client, NODE_SOCKET};

use crate::exit::{self, Outcome, WithCode};
use crate::slurm::record::{self, Record};
use crate::{daemon, out, slurm};

/// How often it is tried: other nodes of the job write theirs into the same comment.
const TRIES: u32 = 4;

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
    let Some(taken) = taken(job).code(exit::NODE)? else {
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
    write(job, &record).code(exit::NODE)?;
    Ok(exit::OK)
}

/// What mgbd knows of the job; `None`: it took nothing.
fn taken(job: u32) -> anyhow::Result<Option<JobView>> {
    let client = Client::observe(Path::new(NODE_SOCKET)).map_err(daemon::way_out)?;
    let view = client.status()?;
    Ok(view.jobs.into_iter().find(|view| view.job == job))
}

/// Has it in the job's record, beside what others have written there.
fn write(job: u32, record: &Record) -> anyhow::Result<()> {
    let number = job.to_string();
    let read = || {
        slurm::run(
            "sacct",
            &["-n", "-P", "-X", "-D", "-j", &number, "-o", "NNodes,AdminComment"],
        )
    };
    for at in 0..TRIES {
        let before = read()?;
        let (nodes, before) = last_run(&before);
        let mut records = record::read(before);
        if records.contains(record) {
            return Ok(());
        }
        records.retain(|other| other.node != record.node);
        records.push(record.clone());
        let comment = record::comment(before, &records);
        let mut set = String::from("AdminComment=");
        // Writing to a String cannot fail. Slurm takes quotes for its own.
        let _ = write!(set, "{}", comment.replace(['"', '\''], "`"));
        slurm::run(
            "sacctmgr",
            &[
                "-i",
                "-Q",
                "modify",
                "job",
                "where",
                &format!("jobid={number}"),
                "set",
                &set,
            ],
        )?;
        if nodes == Some(1) {
            return Ok(());
        }
        // Another node may have read the same and written since; whoever is later has both.
        std::thread::sleep(std::time::Duration::from_millis(u64::from(
            20 * at + 7 * (std::process::id() % 10),
        )));
    }
    Ok(())
}

/// The nodes and the comment of a job's last run, of several where it was requeued.
fn last_run(said: &str) -> (Option<u32>, &str) {
    let line = said.lines().next_back().unwrap_or("");
    let (nodes, comment) = line.split_once('|').unwrap_or(("", line));
    (nodes.trim().parse().ok(), comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_counts() {
        assert_eq!(last_run("1|a\n3|mgb{n1 x=1}\n"), (Some(3), "mgb{n1 x=1}"));
        assert_eq!(last_run("1|\n"), (Some(1), ""));
        assert_eq!(last_run(""), (None, ""));
    }
}
