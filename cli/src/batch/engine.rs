//! Runs jobs, so many at once, until all have ended or the batch is stopped.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::auto::{self, Follower, JobSample};
use super::cause::Cause;
use super::job::{RunningJob, never_started};
use super::jobfile::FileJob;
use super::lost;
use super::outcome::JobOutcome;
use super::setup::Setup;
use crate::parallel::Parallel;
use crate::stop::StopSignals;

/// How long jobs may take to end after SIGTERM before they are killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Follows a batch.
pub trait Observer {
    /// A job was started.
    fn started(&mut self, job: &FileJob);
    /// A job has ended, or was never started.
    fn ended(&mut self, outcome: &JobOutcome);
    /// A job has ended that will run once more.
    fn postponed(&mut self, outcome: &JobOutcome);
    /// The batch was asked to stop: jobs are being ended.
    fn stopping(&mut self, by_force: bool);
}

/// Runs all jobs. Returns an outcome for each, in their order, and the makespan.
///
/// # Errors
/// Only when the machine fails (no more processes, no log can be written): then every job is stopped first.
pub fn run(
    jobs: &[FileJob],
    setup: &Setup,
    stop: &StopSignals,
    observer: &mut dyn Observer,
) -> Result<(Vec<JobOutcome>, Duration)> {
    let follower = match setup.parallel {
        Parallel::Count(_) => None,
        Parallel::Auto => Some(Follower::new(&setup.auto)?),
    };
    let mut batch = Batch {
        setup,
        follower,
        observer,
        began: Instant::now(),
        waiting: jobs.iter().collect(),
        running: Vec::new(),
        outcomes: Vec::new(),
        postponed: Vec::new(),
        last_round: false,
        force_at: None,
    };
    let ended = batch.run_all(stop);
    if ended.is_err() {
        batch.stop_all(Signal::KILL);
        while batch
            .running
            .pop()
            .is_some_and(|job| job.finish(setup, batch.began).is_ok())
        {}
    }
    let makespan = batch.began.elapsed();
    let mut outcomes = batch.outcomes;
    outcomes.sort_by_key(|outcome| outcome.job);
    ended.map(|()| (outcomes, makespan))
}

struct Batch<'a> {
    setup: &'a Setup,
    /// Where the number of jobs follows the node.
    follower: Option<Follower>,
    observer: &'a mut dyn Observer,
    began: Instant,
    waiting: VecDeque<&'a FileJob>,
    running: Vec<RunningJob<'a>>,
    outcomes: Vec<JobOutcome>,
    /// Those that run once more, and how they ended at first.
    postponed: Vec<(&'a FileJob, JobOutcome)>,
    /// Whether they do now.
    last_round: bool,
    /// Set while stopping: when patience with the jobs ends.
    force_at: Option<Instant>,
}

impl Batch<'_> {
    fn run_all(&mut self, stop: &StopSignals) -> Result<()> {
        loop {
            self.heed(stop);
            self.fill()?;
            if self.running.is_empty() {
                if self.postponed.is_empty() {
                    return Ok(());
                }
                self.last_round = true;
                self.waiting = self.postponed.drain(..).map(|(job, _)| job).collect();
                continue;
            }
            self.wait(stop)?;
            self.reap()?;
        }
    }

    /// Starts jobs until as many run as may.
    fn fill(&mut self) -> Result<()> {
        let next: Vec<&FileJob> = self.waiting.iter().copied().take(auto::STEP).collect();
        if next.is_empty() {
            return Ok(());
        }
        let most = match (&mut self.follower, self.setup.parallel) {
            _ if self.last_round => 1,
            (Some(follower), _) => {
                let running: Vec<JobSample<'_>> = self.running.iter().map(RunningJob::sample).collect();
                let next: Vec<_> = next.iter().map(|job| job.kind()).collect();
                follower.wanted(self.began, &running, self.outcomes.len(), &next)?
            }
            (None, Parallel::Count(most)) => most,
            (None, Parallel::Auto) => unreachable!("auto has a follower"),
        };
        while self.running.len() < most {
            let Some(job) = self.waiting.pop_front() else {
                return Ok(());
            };
            match RunningJob::start(job, self.setup, self.began, self.last_round) {
                Ok(running) => {
                    self.observer.started(job);
                    self.running.push(running);
                }
                // The others may still do: a full disk or process table can be over soon.
                Err(error) => self.end(never_started(
                    job,
                    self.began.elapsed(),
                    Some(format!("{error:#}")),
                )),
            }
        }
        Ok(())
    }

    /// Sleeps until a job ends, a signal comes, patience is over, or the node is to be looked at again.
    fn wait(&self, stop: &StopSignals) -> Result<()> {
        let signals = stop.descriptor();
        let jobs = self.running.iter().map(|job| job.descriptor().as_fd());
        let mut watched: Vec<PollFd<'_>> = jobs
            .chain([signals])
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let left = self
            .force_at
            .map(|at| at.saturating_duration_since(Instant::now()));
        // Nothing says that the node can use one more: it is looked at.
        let look = (self.follower.is_some() && !self.waiting.is_empty()).then_some(auto::PACE);
        let left = left.into_iter().chain(look).min();
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("failed to wait for jobs"),
        }
    }

    /// Collects the jobs that have ended.
    fn reap(&mut self) -> Result<()> {
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut index = 0;
        while index < self.running.len() {
            let mut watched = [PollFd::new(self.running[index].descriptor(), PollFlags::IN)];
            let ended = poll(&mut watched, Some(&none)).is_ok_and(|ready| ready > 0);
            if ended {
                let running = self.running.swap_remove(index);
                let job = running.job();
                let mut outcome = running.finish(self.setup, self.began)?;
                lost::judge(&mut outcome);
                if let Some(follower) = &mut self.follower {
                    follower.ended(job.kind(), outcome.host_peak_bytes);
                }
                let is_fault = matches!(outcome.cause, Some(Cause::GpuFault { .. }));
                if is_fault && self.setup.again && !self.last_round && self.force_at.is_none() {
                    self.observer.postponed(&outcome);
                    self.postponed.push((job, outcome));
                } else {
                    self.end(outcome);
                }
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    fn end(&mut self, outcome: JobOutcome) {
        self.observer.ended(&outcome);
        self.outcomes.push(outcome);
    }

    /// On the first signal every job is asked to end; on the second one, or when patience is over, it must.
    fn heed(&mut self, stop: &StopSignals) {
        let signals = stop.take();
        let overdue = self.force_at.is_some_and(|at| Instant::now() >= at);
        let first = signals > 0 && self.force_at.is_none();
        if first {
            for job in std::mem::take(&mut self.waiting) {
                self.end(never_started(job, self.began.elapsed(), None));
            }
            for (_, outcome) in std::mem::take(&mut self.postponed) {
                self.end(outcome);
            }
            self.force_at = Some(Instant::now() + KILL_TIMEOUT);
            self.observer.stopping(false);
            self.stop_all(Signal::TERM);
        }
        if overdue || signals > usize::from(first) && self.force_at.is_some() {
            self.observer.stopping(true);
            self.stop_all(Signal::KILL);
            // Once is enough: nothing survives it, and until it is reaped there is nothing to be impatient
            // about.
            self.force_at = Some(Instant::now() + Duration::from_secs(3600));
        }
    }

    fn stop_all(&mut self, signal: Signal) {
        for job in &mut self.running {
            job.signal(signal);
        }
    }
}
