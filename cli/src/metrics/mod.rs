//! `mgb metrics`: the node's metrics for Prometheus, over a port or a socket, in a file, or printed once.

mod address;
mod families;
mod job_files;
mod node;
mod serve;
mod source;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, anyhow};
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_command::out;
use mgb_probe::socket_path;
use rustix::event::{PollFd, PollFlags, poll};

use self::address::ListenAddress;
use self::job_files::JobFiles;
use self::source::MetricsSource;
use crate::stop::StopSignals;

const HELP: &str = "\
docs/METRICS.md lists all metrics. Labels of GPUs are spelt as DCGM exporter spells them (gpu, UUID, modelName). While no \
mgbd answers, mgb_up is 0 and the rest is missing.

Examples:
  mgb metrics                                    serve http://127.0.0.1:9401/metrics
  mgb metrics --listen unix:/run/mgb-metrics.sock
  mgb metrics --textfile /var/lib/node_exporter/mgb.prom
  mgb metrics --once

Exit code: 0 once it is ended by SIGINT or SIGTERM, 3 if --once finds no mgbd or nothing can be served.";

/// Serve metrics of the GPUs, tasks and queue to Prometheus, write them to a file, or print them.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Serve at HOST:PORT, :PORT for all addresses of the machine, or unix:PATH; who can connect can read.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9401")]
    listen: ListenAddress,
    /// Write them to this file instead, again and again, for the textfile collector of node exporter.
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    textfile: Option<PathBuf>,
    /// Print them once, or write the file once, and end.
    #[arg(long, conflicts_with = "listen")]
    once: bool,
    /// Keep the files in this folder by which DCGM exporter knows the jobs of each GPU (its
    /// --hpc-job-mapping-dir).
    #[arg(long, value_name = "FOLDER", env = "DCGM_HPC_JOB_MAPPING_DIR")]
    job_mapping_dir: Option<PathBuf>,
    /// Seconds between two writes of files.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let source = Arc::new(MetricsSource::new(socket_path()));
    if let Some(folder) = args.job_mapping_dir.as_ref().filter(|folder| !folder.is_dir()) {
        let error = anyhow!(
            "failed to keep the jobs of GPUs in {}: there is no such folder; create it",
            folder.display()
        );
        return Err(Failure::new(exit::USAGE, error));
    }
    let mut files = WrittenFiles {
        textfile: args.textfile.clone(),
        jobs: args.job_mapping_dir.as_deref().map(JobFiles::new),
    };
    if args.once {
        return once(&source, files);
    }
    let interval = Duration::from_secs(args.interval);
    let (is_over, over) = channel::<()>();
    let writer = files.are_wanted().then(|| {
        let source = Arc::clone(&source);
        let thread = std::thread::Builder::new().name("mgb-metrics".to_owned());
        thread.spawn(move || {
            let mut said = String::new();
            loop {
                // Said once, and again when it is something else.
                let trouble = files
                    .write(&source)
                    .err()
                    .map_or(String::new(), |error| format!("{error:#}"));
                if trouble != said && !trouble.is_empty() {
                    mgb_command::tell!("mgb metrics: {trouble}");
                }
                said = trouble;
                if over.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })
    });
    let writer = writer
        .transpose()
        .context("failed to start a thread")
        .code(exit::NODE)?;
    let ended = if args.textfile.is_some() {
        wait_for_a_signal()
    } else {
        serve::serve(&args.listen, source)
    };
    drop(is_over);
    if let Some(writer) = writer {
        let _ = writer.join();
    }
    ended.code(exit::NODE)?;
    Ok(exit::OK)
}

fn wait_for_a_signal() -> anyhow::Result<()> {
    let stop = StopSignals::watch()?;
    let mut polled = [PollFd::from_borrowed_fd(stop.descriptor(), PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut polled, None)).context("failed to wait for signals")?;
    Ok(())
}

/// Prints the metrics, or writes the files.
fn once(source: &MetricsSource, mut files: WrittenFiles) -> CommandResult {
    if files.textfile.is_none() {
        out::print(&source.text().code(exit::NODE)?);
    }
    files.write(source).code(exit::NODE)?;
    if let Some(jobs) = files.jobs {
        jobs.leave();
    }
    match source.view() {
        Ok(_) => Ok(exit::OK),
        Err(why) => Err(Failure::new(exit::NODE, anyhow!(why))),
    }
}

/// The files that are written again and again.
struct WrittenFiles {
    textfile: Option<PathBuf>,
    jobs: Option<JobFiles>,
}

impl WrittenFiles {
    fn are_wanted(&self) -> bool {
        self.textfile.is_some() || self.jobs.is_some()
    }

    fn write(&mut self, source: &MetricsSource) -> anyhow::Result<()> {
        let jobs = match &mut self.jobs {
            Some(jobs) => jobs
                .update(source.view().ok().as_deref())
                .context("failed to write the jobs of GPUs"),
            None => Ok(()),
        };
        if let Some(file) = &self.textfile {
            let text = source.text()?;
            out::replace(file, |writer| writer.write_all(text.as_bytes()))
                .with_context(|| format!("failed to write {}", file.display()))?;
        }
        jobs
    }
}

#[cfg(test)]
mod tests;
