//! `mgb cluster epilog`: what a job took of this node's GPUs goes into Slurm's accounting. Another process
//! brings it there ([`super::deliver`]), so that the job's end does not wait for it.

use std::path::Path;

use anyhow::{Context, bail};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::{daemon, out};
use mgb_probe::view::JobView;
use mgb_probe::{Client, NODE_SOCKET};

use super::accounting_spool::Outbox;
use crate::tools;
use crate::tools::record::{self, JobRecord};

/// Record what a job took of this node's GPUs, in Slurm's accounting (Slurm calls it, as root).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In slurm.conf: Epilog=/usr/local/bin/mgb-epilog. The SPANK plugin calls it by itself. `sacct -o JobID,AdminComment%60` \
shows what it has written: `mgb{n1 peak_mib=12 gpu_peak_mib=12 waited=0.50s held=2.10s tasks=1}`, a moment \
after the job's end. While slurmdbd is away the record waits in /var/spool/mgb.

Exit code: 0, or 2 for a wrong call. Slurm drains a node whose epilog fails, and none is to be drained for a record.")]
pub struct Args {
    /// The job [default: SLURM_JOB_ID].
    #[arg(long, value_name = "NUMBER")]
    job: Option<u32>,
    /// Its user's number [default: SLURM_JOB_UID].
    #[arg(long, value_name = "NUMBER")]
    user: Option<u32>,
    /// Print it, and record nothing.
    #[arg(long)]
    print: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let of = |name: &str| std::env::var(name).ok()?.parse().ok();
    let job = args.job.or_else(|| of("SLURM_JOB_ID"));
    let job = job.context("no --job and no SLURM_JOB_ID").code(exit::USAGE)?;
    let user = args.user.or_else(|| of("SLURM_JOB_UID"));
    let user = user.context("no --user and no SLURM_JOB_UID").code(exit::USAGE)?;
    let Some(taken) = taken(job, user).code(exit::OK)? else {
        return Ok(exit::OK);
    };
    let node = tools::node_name();
    let record = JobRecord::of(&node, &taken);
    if args.print {
        out::print(&format!(
            "{}\n",
            record::comment("", std::slice::from_ref(&record))
        ));
        return Ok(exit::OK);
    }
    let outbox = Outbox::of_node();
    let kept = outbox.put(job, &record).and_then(|()| outbox.deliver());
    kept.with_context(|| format!("{} cannot be used", outbox.folder().display()))
        .code(exit::OK)?;
    Ok(exit::OK)
}

/// What mgbd knows of the job; `None`: it took nothing.
fn taken(job: u32, user: u32) -> anyhow::Result<Option<JobView>> {
    let client = Client::observe(Path::new(NODE_SOCKET)).map_err(daemon::way_out)?;
    let view = client.status()?;
    // Another user's process may have said that it belongs to the job.
    let own = |view: &JobView| view.job == job && view.uid == user;
    let is_cut = view.cut.jobs > 0;
    let taken = view.jobs.into_iter().find(own);
    if taken.is_none() && is_cut {
        bail!("mgbd has more jobs to show than its node view holds: what job {job} took is not known");
    }
    Ok(taken)
}
