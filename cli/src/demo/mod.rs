//! `mgb demo`: the same jobs under `sa`, `cg:4` and `mgb`, and one table.

mod jobs;
mod page;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jobs::HostPhase;
use mgb_command::daemon::{Private, Start};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::machine::Machine;
use mgb_command::out;
use mgb_command::prefix::Prefix;
use mgb_interface::Policy;
use mgb_probe::{Client, Hello, byte_size};
use table::DemoOutcome;
use tempfile::TempDir;

use crate::batch::auto::peaks::Peaks;
use crate::batch::jobfile::FileJob;
use crate::batch::outcome::BatchOutcome;
use crate::measure;
use crate::measure::ballast::Ballast;
use crate::measure::policy_batch::PolicyBatch;
use crate::measure::sampler::MeasuredSample;
use crate::parallel::Parallel;
use crate::policy;
use crate::stop::StopSignals;

/// The software GPUs, where the user names none.
const SOFTWARE_GPUS: &str = "4x256MiB";

/// What is left free on a large real GPU.
const DEFAULT_LEAVE: u64 = 16 << 30;

/// Jobs at once on a GPU, under policies that know what fits.
const JOBS_PER_GPU: usize = 4;

/// Run the same 26 jobs one at a time per GPU (sa), four at a time (cg:4) and under MGB, and compare: in a
/// table, and on a page to open in a browser.
///
/// On real GPUs where there are any, with their memory made short by a program that holds the rest; else on 4
/// software GPUs of 256 MiB. The jobs are the examples; each checks its own result. Under cg:4 the scheduler
/// does not know what the others need, so that jobs run out of memory; under mgb none does. Nothing else of
/// MGB on this machine is touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 if every job under sa and mgb was right, else 1.")]
pub struct Args {
    /// The policies to compare.
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "sa,cg:4,mgb"
    )]
    policies: Vec<Policy>,
    /// Leave so much free on every GPU, by holding the rest [default: 16GiB on real GPUs, all on software
    /// GPUs].
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    leave: Option<u64>,
    /// What the jobs do between their GPU phases [default: compute on real GPUs, wait on software GPUs].
    #[arg(long, value_enum, value_name = "KIND")]
    host_phase: Option<HostPhase>,
    /// The folder for logs [default: a temporary one, kept if a job failed that should not].
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// The page: what ran where and when, the memory in use, the queue.
    #[arg(long, value_name = "FILE", default_value = "demo.html")]
    page: PathBuf,
    /// Write no page.
    #[arg(long, conflicts_with = "page")]
    no_page: bool,
    /// Print the figures as JSON, with every job, task and sample.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let stop = StopSignals::watch().code(exit::NODE)?;
    let page = page_file(args).code(exit::NODE)?;
    let folder = tempfile::Builder::new().prefix("mgb-demo-").tempdir();
    let folder = folder
        .context("failed to make a temporary folder; set TMPDIR")
        .code(exit::NODE)?;
    let demo = measure(args, &stop, folder.path()).code(exit::NODE)?;
    if let Some(code) = stop.exit_code() {
        return Ok(code);
    }
    if args.json {
        out::print(&out::json(&demo).code(exit::NODE)?);
    } else {
        out::print(&format!("\n{}", table::text(&demo)));
    }
    if let Some(file) = page {
        page::write(&demo, &file).code(exit::NODE)?;
        // Not among the JSON.
        mgb_command::tell!("\npage: {}", file.display());
    }
    if demo.is_right() {
        return Ok(exit::OK);
    }
    report_wrong(&demo, folder);
    Ok(exit::FAILED)
}

/// Where the page goes. Whether it can is seen before the jobs run, not after.
fn page_file(args: &Args) -> Result<Option<PathBuf>> {
    if args.no_page {
        return Ok(None);
    }
    let file = std::path::absolute(&args.page)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    tempfile::Builder::new()
        .prefix(".mgb-demo-")
        .tempfile_in(folder)
        .with_context(|| {
            format!(
                "failed to write in {}, where the page would go; give --page FILE or --no-page",
                folder.display()
            )
        })?;
    Ok(Some(file))
}

fn measure(args: &Args, stop: &StopSignals, folder: &Path) -> Result<DemoOutcome> {
    let prefix = Prefix::find()?;
    let machine = Machine::find(&prefix)?;
    let host = args.host_phase.unwrap_or(if machine.is_soft() {
        HostPhase::Wait
    } else {
        HostPhase::Compute
    });
    let environment = measure::software_gpus(&machine, folder, SOFTWARE_GPUS);
    let examples = prefix.path().join("examples");
    let leave = args.leave.or((!machine.is_soft()).then_some(DEFAULT_LEAVE));
    let native = if machine.is_soft() { "mgb" } else { "plain" };
    let ballast = |leave| {
        Ballast::load(
            &examples.join(native).join("ballast"),
            leave,
            &machine,
            &environment,
        )
    };
    let _ballast = leave.map(ballast).transpose()?;
    let logs = match &args.logs {
        Some(logs) => std::path::absolute(logs)?,
        None => folder.join("logs"),
    };
    let mut batches = Vec::new();
    // Of the first policy's mgbd: the same jobs for all, whatever a few megabytes of somebody else's do
    // meanwhile.
    let mut node: Option<(String, u64)> = None;
    for &policy in &args.policies {
        if stop.exit_code().is_some() {
            break;
        }
        let socket = folder.join(format!("{}.sock", policy.to_string().replace(':', "-")));
        let environment = environment.clone();
        let start = Start {
            policy: Some(policy),
            environment,
            ..Start::at(socket, &prefix, &machine)
        };
        // The baselines run plain binaries; on software GPUs kernels are in the MGB binaries, which run
        // natively.
        let form = if policy.places_processes() { native } else { "mgb" };
        let (mgbd, client) = Private::start(&start)?;
        let (_, capacity) = match &node {
            Some(node) => node,
            None => node.insert(look(&client)?),
        };
        let list = jobs::list(&examples.join(form), *capacity, host)?;
        batches.push(one_policy(&start, policy, client.hello(), &list, &logs, stop)?);
        drop((client, mgbd));
    }
    let (name, capacity) = node.context("no policy to compare")?;
    Ok(DemoOutcome::new(
        (machine.is_soft(), name),
        capacity,
        host,
        batches,
    ))
}

/// A GPU's name, and the least that is free on one.
fn look(client: &Client) -> Result<(String, u64)> {
    let view = client.status()?;
    let free = view
        .gpus
        .iter()
        .map(|gpu| gpu.gpu.usable_bytes.saturating_sub(gpu.foreign_bytes))
        .min();
    let name = view.gpus.first().map(|gpu| gpu.gpu.name.clone());
    Ok((name.unwrap_or_default(), free.context("no GPU at all")?))
}

/// One policy's batch, under an mgbd of its own.
fn one_policy(
    start: &Start<'_>,
    policy: Policy,
    hello: &Hello,
    list: &[FileJob],
    logs: &Path,
    stop: &StopSignals,
) -> Result<(BatchOutcome, Vec<MeasuredSample>)> {
    let parallel = match policy::default_parallel(policy, hello.gpus.len()) {
        // As many as under `cg:4`, whatever else the machine does meanwhile.
        Parallel::Auto => Parallel::Count(JOBS_PER_GPU * hello.gpus.len()),
        given => given,
    };
    mgb_command::tell!("{policy}: {} jobs, at most {parallel} at once", list.len());
    let batch = PolicyBatch {
        start,
        hello,
        jobs: list,
        parallel,
        peaks: Peaks::default(),
        logs: &logs.join(policy.to_string().replace(':', "-")),
    };
    batch.run(stop)
}

fn report_wrong(demo: &DemoOutcome, folder: TempDir) {
    for row in demo
        .policies
        .iter()
        .filter(|row| !row.batch.policy.starts_with("cg:"))
    {
        for job in row
            .batch
            .jobs
            .iter()
            .filter(|job| job.state != crate::batch::outcome::JobState::Done)
        {
            let why = job.cause.as_ref().map(|cause| cause.short()).unwrap_or_default();
            mgb_command::tell!(
                "mgb demo: {} failed under {}: {why}",
                job.command,
                row.batch.policy
            );
        }
    }
    mgb_command::tell!("mgb demo: logs are in {}", folder.keep().display());
}
