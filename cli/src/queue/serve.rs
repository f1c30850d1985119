//! `mgb queue serve`: the service itself, and what it does not know of MGB.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use mgb_command::daemon::{self, Start};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::machine::Machine;
use mgb_command::prefix::Prefix;
use mgb_probe::{Client, Deadline};
use mgb_queue::attempt::{AttemptFolder, Ended, Order};
use mgb_queue::places::QueuePlace;
use mgb_queue::record::{Failure, FailureKind, Found, JobRecord};
use mgb_queue::runner::{Runner, SeenJob};
use mgb_queue::{service, watcher};

use crate::batch::auto::peaks::{HostKind, Peaks};
use crate::batch::auto::{AutoSettings, Follower, JobSample};
use crate::batch::cause::Cause;
use crate::batch::launch::{JobTimes, Launch, Left};

/// Serve the queue in the foreground, for a service manager: other commands start the service by themselves.
///
/// It ends once there has been nothing to do for a minute.
#[derive(Debug, Args)]
pub struct Serve {}

/// Watch an attempt of a job of the queue, for its service.
#[derive(Debug, Args)]
pub struct WatchJob {
    folder: PathBuf,
}

/// Runs `mgb queue serve`.
pub fn run(_: &Serve) -> CommandResult {
    let serve = || {
        let mut node = Node {
            mgb: Prefix::find()?.mgb()?,
            peaks: Peaks::default(),
            following: None,
            began: Instant::now(),
        };
        service::serve(&QueuePlace::find()?, &mut node)
    };
    serve().code(exit::NODE)?;
    Ok(exit::OK)
}

/// Runs `mgb watch-job`.
pub fn watch_job(args: &WatchJob) -> CommandResult {
    watcher::watch(&AttemptFolder::at(args.folder.clone())).code(exit::NODE)?;
    Ok(exit::OK)
}

/// How many characters of a line of a log are kept.
const LONGEST_EVIDENCE: usize = 500;

/// The node that the jobs run on.
struct Node {
    mgb: PathBuf,
    peaks: Peaks,
    following: Option<Following>,
    began: Instant,
}

/// What the node can use, by its mgbd.
struct Following {
    follower: Follower,
    /// Jobs come and go, and mgbd shall not take a gap for the end of its work.
    client: Client,
}

impl Node {
    fn follow(&self) -> Result<Following> {
        let prefix = Prefix::find()?;
        let machine = Machine::find(&prefix)?;
        let start = Start::shared(&prefix, &machine, None, None);
        daemon::ensure(&start)?;
        let client = Client::connect(&start.socket).map_err(daemon::way_out)?;
        let follower = Follower::new(&AutoSettings {
            socket: start.socket.clone(),
            gpus: client.hello().gpus.len(),
            peaks: self.peaks.clone(),
        })?;
        Ok(Following { follower, client })
    }
}

impl Runner for Node {
    fn order(&mut self, job: &JobRecord, attempt: &AttemptFolder) -> Result<(Order, Vec<(String, String)>)> {
        let spec = &job.spec;
        let deadline = spec.deadline.map(|seconds| {
            let text = format!("{seconds}");
            text.parse::<Deadline>().ok().context("its deadline is none")
        });
        let launch = Launch {
            placement: &attempt.placement(),
            name: &mgb_probe::new_job(),
            need: spec.need,
            gpus: spec.gpus,
            deadline: deadline.transpose()?,
            program: &spec.program,
            arguments: &spec.arguments,
        };
        let command = [self.mgb.clone().into_os_string()]
            .into_iter()
            .chain(launch.arguments());
        let command = command.map(|word| {
            let text = word.into_string();
            text.map_err(|word| anyhow::anyhow!("{} is no UTF-8", word.display()))
        });
        let order = Order {
            command: command.collect::<Result<Vec<String>>>()?,
            folder: spec.folder.clone(),
            limit_s: spec.limit_s,
        };
        let trace = attempt.trace().to_string_lossy().into_owned();
        let mut variables = vec![("MGB_TRACE".to_owned(), trace)];
        if spec.latency {
            let class = mgb_probe::Class::Latency.name();
            variables.push((mgb_probe::CLASS.to_owned(), class.to_owned()));
        }
        Ok((order, variables))
    }

    fn watcher(&self, attempt: &AttemptFolder) -> Command {
        let mut command = Command::new(&self.mgb);
        command.arg("watch-job").arg(attempt.path());
        command
    }

    fn judge(&mut self, _: &JobRecord, attempt: &AttemptFolder, ended: &Ended) -> Found {
        let name = name_of(attempt).unwrap_or_default();
        let (placement, trace, log) = (attempt.placement(), attempt.trace(), attempt.log());
        let left = Left {
            placement: &placement,
            trace: &trace,
            name: &name,
            log: &log,
        };
        let times = JobTimes {
            began: Instant::now(),
            queued: Duration::ZERO,
            ended: Duration::ZERO,
        };
        let (traced, cause) = left.judge(ended.exit_code, ended.signal, times);
        let mut failure = cause.map(failure);
        if ended.is_over_limit && failure.is_some() {
            failure = Some(Failure {
                kind: FailureKind::TimeLimit,
                evidence: Some("its time limit was over".to_owned()),
            });
        }
        Found {
            failure,
            gpus: traced.gpus,
            waited_s: traced.waited.as_secs_f64(),
            peak_bytes: traced
                .stretches
                .iter()
                .filter_map(|stretch| stretch.peak_bytes)
                .max(),
            evictions: traced.evictions.times,
            evicted_bytes: traced.evictions.bytes,
            moves: traced.moves,
            share: traced.share,
        }
    }

    fn ended(&mut self, job: &JobRecord, host_peak_bytes: u64) {
        let kind = kind_of(job);
        self.peaks.remember(kind, host_peak_bytes);
        if let Some(following) = &mut self.following {
            following.follower.ended(kind, host_peak_bytes);
        }
    }

    fn wanted(&mut self, running: &[SeenJob], finished: usize, next: &[JobRecord]) -> Result<usize> {
        // An mgbd that was stopped tells nothing more.
        let is_there = |following: &Following| following.client.status().is_ok();
        if !self.following.as_ref().is_some_and(is_there) {
            self.following = None;
            self.following = Some(self.follow()?);
        }
        let following = self.following.as_mut().context("the node is not followed")?;
        let running: Vec<JobSample<'_>> = running
            .iter()
            .map(|job| JobSample {
                kind: HostKind {
                    text: &job.text,
                    program: &job.program,
                },
                pid: job.pid,
                started: job.started,
            })
            .collect();
        let next: Vec<HostKind<'_>> = next.iter().map(kind_of).collect();
        following.follower.wanted(self.began, &running, finished, &next)
    }

    fn rest(&mut self) {
        // mgbd may end, if nobody else has work for it.
        self.following = None;
    }
}

fn kind_of(job: &JobRecord) -> HostKind<'_> {
    HostKind {
        text: &job.spec.text,
        program: &job.spec.program,
    }
}

/// By what mgbd knows the job of an attempt.
///
/// # Errors
/// When its order cannot be read.
pub fn name_of(attempt: &AttemptFolder) -> Result<String> {
    let (order, _) = attempt.order()?;
    let mut words = order.command.iter().skip_while(|word| *word != "--job");
    let name = words.nth(1).context("its order names no job of mgbd's")?;
    Ok(name.clone())
}

fn failure(cause: Cause) -> Failure {
    let kind = match &cause {
        Cause::OutOfMemory { .. } | Cause::GpuFull { .. } => FailureKind::OutOfMemory,
        Cause::NeverFits { .. } => FailureKind::NeverFits,
        Cause::OverQuota { .. } => FailureKind::OverQuota,
        Cause::GpuFault { .. } => FailureKind::GpuFault,
        Cause::Signal { .. } => FailureKind::Signal,
        Cause::Exit { .. } => FailureKind::Exit,
        Cause::NotStarted { .. } => FailureKind::NotStarted,
    };
    Failure {
        kind,
        evidence: cause
            .evidence()
            .map(|line| line.chars().take(LONGEST_EVIDENCE).collect()),
    }
}
