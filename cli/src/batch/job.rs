//! One job while it runs: its process group, its log, and what it leaves behind.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mgb_command::reap::reap;
use mgb_probe::Deadline;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::auto::JobSample;
use super::cause::Cause;
use super::jobfile::FileJob;
use super::launch::{JobTimes, Launch, Left};
use super::outcome::{Evictions, JobDeadline, JobOutcome, JobState};
use super::setup::Setup;

/// A job's process.
#[derive(Debug)]
pub struct RunningJob<'a> {
    job: &'a FileJob,
    child: Child,
    pidfd: OwnedFd,
    started: Instant,
    queued: Duration,
    log: PathBuf,
    placement: PathBuf,
    /// What its processes know it by.
    name: String,
    stopped: bool,
    again: bool,
}

impl<'a> RunningJob<'a> {
    /// Starts a job through `mgb run`, in a process group of its own. `again`: for the second time.
    pub fn start(job: &'a FileJob, setup: &Setup, began: Instant, again: bool) -> Result<Self> {
        let name = name_of(&job.program);
        let stem = format!("{:03}-{name}{}", job.number, if again { "-again" } else { "" });
        let log = setup.logs.join(format!("{stem}.log"));
        let placement = setup.logs.join(format!(".{stem}.placement"));
        // One of an earlier batch in the same folder would be taken for this job's.
        let _ = fs::remove_file(&placement);
        let output =
            File::create(&log).with_context(|| format!("failed to write the log {}", log.display()))?;
        let job_name = mgb_probe::new_job();
        let launch = Launch {
            placement: &placement,
            name: &job_name,
            need: job.need,
            gpus: job.gpus,
            deadline: job.deadline,
            program: &job.program,
            arguments: &job.arguments,
        };
        let mut command = Command::new(&setup.mgb);
        command.args(launch.arguments());
        setup.machine.apply(&mut command);
        command
            .envs(setup.environment.iter().map(|(name, value)| (name, value)))
            .envs(job.environment.iter().map(|(name, value)| (name, value)))
            .env("MGB_TRACE", &setup.trace);
        let errors = output.try_clone().context("failed to open the log twice")?;
        command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0);
        // SAFETY: prctl is async-signal-safe, and the closure touches no memory of the parent's other
        // threads.
        unsafe {
            // A batch that is killed by force leaves no jobs behind.
            command.pre_exec(|| {
                rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).map_err(Into::into)
            });
        }
        let child = command
            .spawn()
            .with_context(|| format!("failed to start {}", setup.mgb.display()))?;
        let pid = Pid::from_raw(child.id() as i32).context("a process without a number")?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("failed to watch a job's process")?;
        let started = Instant::now();
        Ok(Self {
            job,
            child,
            pidfd,
            started,
            queued: started - began,
            log,
            placement,
            name: job_name,
            stopped: false,
            again,
        })
    }

    /// What it is.
    pub fn job(&self) -> &'a FileJob {
        self.job
    }

    /// What is counted of it while it runs: its process is `mgb run` at first, then the program that it becomes.
    pub fn sample(&self) -> JobSample<'_> {
        JobSample {
            kind: self.job.kind(),
            pid: Some(self.child.id()),
            started: self.started,
        }
    }

    /// Becomes readable when the process has ended.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Sends a signal to the job and to what it started.
    pub fn signal(&mut self, signal: Signal) {
        self.stopped = true;
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            // Not waited for yet, so the number is still this job's. Failing means that it has ended.
            let _ = kill_process_group(group, signal);
        }
    }

    /// What came of it, once it has ended.
    pub fn finish(mut self, setup: &Setup, began: Instant) -> Result<JobOutcome> {
        let pid = self.child.id();
        if self.stopped {
            // Those of its children that did not heed the first signal.
            self.signal(Signal::KILL);
        }
        let reaped = reap(pid).context("failed to wait for a job")?;
        let ended = Instant::now();
        let status = reaped.status;
        let (exit_code, signal) = (status.code(), status.signal());
        let left = Left {
            placement: &self.placement,
            trace: &setup.trace,
            name: &self.name,
            log: &self.log,
        };
        let times = JobTimes {
            began,
            queued: self.queued,
            ended: ended - began,
        };
        let (traced, cause) = left.judge(exit_code, signal, times);
        let (state, cause) = match (cause, self.stopped) {
            (None, _) => (JobState::Done, None),
            (Some(_), true) => (JobState::Stopped, None),
            (cause, false) => (JobState::Failed, cause),
        };
        Ok(JobOutcome {
            job: self.job.number,
            command: self.job.text.clone(),
            state,
            exit_code,
            signal,
            cause,
            gpus: traced.gpus,
            tasks: traced.stretches,
            evictions: traced.evictions,
            moves: traced.moves,
            share: traced.share,
            latency: traced.latency,
            queued: self.queued,
            waited: traced.waited,
            ran: (ended - self.started).saturating_sub(traced.waited),
            turnaround: ended - began,
            cpu: reaped.cpu,
            host_peak_bytes: reaped.peak_bytes,
            log: Some(self.log),
            again: self.again,
            due: self.job.deadline.map(|deadline| {
                let now = ended - began;
                let since_began =
                    |time: f64| time - Deadline::within(Duration::ZERO).as_secs_f64() + now.as_secs_f64();
                JobDeadline {
                    deadline_s: since_began(deadline.as_secs_f64()),
                    expected_end_s: traced.expected_end.map(since_began),
                }
            }),
        })
    }
}

/// A job that was not even started.
pub fn never_started(job: &FileJob, waited: Duration, why: Option<String>) -> JobOutcome {
    JobOutcome {
        job: job.number,
        command: job.text.clone(),
        state: if why.is_some() {
            JobState::Failed
        } else {
            JobState::NotStarted
        },
        exit_code: None,
        signal: None,
        cause: why.map(|reason| Cause::NotStarted { reason }),
        gpus: Vec::new(),
        tasks: Vec::new(),
        evictions: Evictions::default(),
        moves: 0,
        share: None,
        latency: None,
        queued: waited,
        waited: Duration::ZERO,
        ran: Duration::ZERO,
        turnaround: waited,
        cpu: Duration::ZERO,
        host_peak_bytes: 0,
        log: None,
        again: false,
        due: None,
    }
}

fn name_of(program: &Path) -> String {
    program
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
