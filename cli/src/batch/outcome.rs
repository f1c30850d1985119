//! What came of the jobs, for people and for scripts.

use std::path::PathBuf;
use std::time::Duration;

use mgb_probe::Bursts;
use serde::{Deserialize, Serialize};

use super::cause::Cause;
use crate::parallel::Parallel;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// With exit code 0.
    Done,
    /// Otherwise, by itself.
    Failed,
    /// Stopped, because the batch was.
    Stopped,
    /// Never started, because the batch was stopped before.
    NotStarted,
}

/// One job's outcome. Times count from the start of the batch, when all jobs were queued.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobOutcome {
    /// Its number in the job file, from 1.
    pub job: usize,
    /// The command as written.
    pub command: String,
    /// How it ended.
    pub state: JobState,
    /// Its exit code; none if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why it failed.
    pub cause: Option<Cause>,
    /// The GPUs it was placed on, by mgbd's numbers; empty if it used none, or did not live to say.
    pub gpus: Vec<u32>,
    /// When it held room on a GPU, and where: a line a task, or one for the whole process where that was
    /// placed.
    pub tasks: Vec<Stretch>,
    /// What left its GPUs for the host while others waited, and came back.
    #[serde(default)]
    pub evictions: Evictions,
    /// How often a task of it moved to another GPU.
    #[serde(default)]
    pub moves: u64,
    /// Its part of the time in which its GPUs had work while it was there, from 0 to 1: where n processes had
    /// work at once, 1/n each. None if it was not there for long enough, or did not live to say.
    #[serde(default)]
    pub share: Option<f64>,
    /// How long its bursts took, from the first launch until it had synchronised, where it is a latency
    /// program and lived to say: of several processes, that of the one with most bursts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Bursts>,
    /// Until its process was started.
    #[serde(rename = "queued_s", with = "as_seconds")]
    pub queued: Duration,
    /// Within its run, waiting for room on a GPU.
    #[serde(rename = "waited_s", with = "as_seconds")]
    pub waited: Duration,
    /// From its process's start to its end, without that wait.
    #[serde(rename = "ran_s", with = "as_seconds")]
    pub ran: Duration,
    /// From the start of the batch to its end.
    #[serde(rename = "turnaround_s", with = "as_seconds")]
    pub turnaround: Duration,
    /// Processor time of its process and of the children that it waited for.
    #[serde(rename = "cpu_s", with = "as_seconds")]
    pub cpu: Duration,
    /// The most host memory that one process of it had at once, in bytes.
    pub host_peak_bytes: u64,
    /// What it printed.
    pub log: Option<PathBuf>,
    /// Whether this was its second run, by itself at the end: the GPU had failed under the first.
    #[serde(default)]
    pub again: bool,
    /// When it was to have ended; none where nobody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<JobDeadline>,
}

/// A job's deadline, in seconds from the start of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobDeadline {
    /// When it was to have ended.
    pub deadline_s: f64,
    /// When it was expected to end, as it was started; none where nothing was known of it.
    pub expected_end_s: Option<f64>,
}

impl JobOutcome {
    /// By how many seconds it has missed its deadline, negative where it was early; `None`: it had none, or
    /// did not end well.
    pub fn lateness_s(&self) -> Option<f64> {
        let due = self.due.filter(|_| self.state == JobState::Done)?;
        Some(self.turnaround.as_secs_f64() - due.deadline_s)
    }
}

/// A stretch of time that one task held room on a GPU. Times count from the start of the batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// The GPU, by mgbd's number.
    pub gpu: u32,
    /// The function that holds the task; `lazy` for what was bound at run time, `process` for a whole
    /// process, and the program's name where that was not built with MGB.
    pub task: String,
    /// From the grant,
    #[serde(rename = "from_s", with = "as_seconds")]
    pub from: Duration,
    /// to the end.
    #[serde(rename = "to_s", with = "as_seconds")]
    pub to: Duration,
    /// The most bytes it had allocated at once, where the program said so.
    pub peak_bytes: Option<u64>,
    /// When memory of it was in the host meanwhile: the first 10,000 times in a process.
    #[serde(default)]
    pub away: Vec<EvictedSpan>,
}

/// A stretch of time that memory of a task was not on its GPU. Times count from the start of the batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvictedSpan {
    /// From the order to leave, or as others could not go on without it,
    #[serde(rename = "from_s", with = "as_seconds")]
    pub from: Duration,
    /// to the moment at which it was back, or the end of the task.
    #[serde(rename = "to_s", with = "as_seconds")]
    pub to: Duration,
    /// How much left, in bytes.
    pub bytes: u64,
}

/// What left a job's GPUs for the host and came back, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evictions {
    /// How often memory of a task left.
    pub times: u64,
    /// How much left, in bytes.
    pub bytes: u64,
    /// Waiting for copies to the host and back.
    #[serde(rename = "copying_s", with = "as_seconds")]
    pub copying: Duration,
}

/// A whole batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BatchOutcome {
    /// The layout of this document.
    pub version: u32,
    /// The policy of the mgbd in use.
    pub policy: String,
    /// How many GPUs it shares.
    pub gpus: usize,
    /// How many jobs ran at once at most.
    pub parallel: usize,
    /// Whether that number followed what the node could use.
    pub auto: bool,
    /// One entry a job, in the order of the file.
    pub jobs: Vec<JobOutcome>,
    /// From the start of the batch to the end of the last job.
    #[serde(rename = "makespan_s", with = "as_seconds")]
    pub makespan: Duration,
    /// Mean over the jobs that ran to their end, failed ones too.
    #[serde(rename = "mean_turnaround_s", with = "as_seconds")]
    pub mean_turnaround: Duration,
    /// Jobs that did not end with 0.
    pub failed: usize,
    /// Jobs whose cause is a lack of GPU memory: see [`Cause::is_memory`].
    pub failed_for_memory: usize,
    /// Whether the batch was stopped before its end.
    pub interrupted: bool,
}

/// The version of [`BatchOutcome`]'s layout.
pub const VERSION: u32 = 1;

impl BatchOutcome {
    /// Sums up jobs of which so many ran at once.
    pub fn new(
        policy: String,
        gpus: usize,
        parallel: Parallel,
        jobs: Vec<JobOutcome>,
        makespan: Duration,
    ) -> Self {
        let ended = |job: &&JobOutcome| matches!(job.state, JobState::Done | JobState::Failed);
        let count = jobs.iter().filter(ended).count() as u32;
        let turnarounds: Duration = jobs.iter().filter(ended).map(|job| job.turnaround).sum();
        let mut batch = Self {
            version: VERSION,
            policy,
            gpus,
            parallel: match parallel {
                Parallel::Count(count) => count,
                Parallel::Auto => most_at_once(&jobs),
            },
            auto: parallel == Parallel::Auto,
            makespan,
            mean_turnaround: turnarounds.checked_div(count).unwrap_or_default(),
            failed: 0,
            failed_for_memory: 0,
            interrupted: jobs
                .iter()
                .any(|job| matches!(job.state, JobState::Stopped | JobState::NotStarted)),
            jobs,
        };
        batch.count_failures();
        batch
    }

    /// Counts failures anew, after causes have changed.
    pub fn count_failures(&mut self) {
        let is_memory = |job: &&JobOutcome| job.cause.as_ref().is_some_and(Cause::is_memory);
        self.failed = self.jobs.iter().filter(|job| job.state != JobState::Done).count();
        self.failed_for_memory = self.jobs.iter().filter(is_memory).count();
    }
}

/// How many of these jobs ran at once at most.
pub fn most_at_once(jobs: &[JobOutcome]) -> usize {
    let ran = || jobs.iter().filter(|job| job.log.is_some());
    let at = |moment| {
        ran()
            .filter(|job| job.queued <= moment && moment < job.turnaround)
            .count()
    };
    ran().map(|job| at(job.queued)).max().unwrap_or(0)
}

/// Times as seconds.
pub mod as_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes a time in seconds.
    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        // Milliseconds are what a batch's clock is good for.
        serializer.serialize_f64((time.as_secs_f64() * 1e3).round() / 1e3)
    }

    /// Reads it back.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
    }
}
