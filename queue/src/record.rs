//! What is known of a job: what was asked for, and what has become of it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::{JobId, Selection};

/// What somebody wants to have run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The command as it was written.
    pub text: String,
    /// The file of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The folder that it runs in.
    pub folder: PathBuf,
    /// Variables beside those of whoever submitted it.
    #[serde(default)]
    pub variables: Vec<(String, String)>,
    /// What people call it.
    #[serde(default)]
    pub name: Option<String>,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// GPU memory of the whole process in bytes, for a program that was not built with MGB.
    #[serde(default)]
    pub need: Option<u64>,
    /// How many GPUs it is placed on as one.
    #[serde(default)]
    pub gpus: Option<u32>,
    /// Whether it goes before batch programs.
    #[serde(default)]
    pub latency: bool,
    /// When it is to have ended, in seconds since 1970.
    #[serde(default)]
    pub deadline: Option<f64>,
    /// Jobs with a higher one start first.
    #[serde(default)]
    pub priority: i32,
    /// Jobs that it follows.
    #[serde(default)]
    pub after: Vec<Dependency>,
    /// How long it may run, in seconds.
    #[serde(default)]
    pub limit_s: Option<f64>,
    /// How often it is run again after it has failed,
    #[serde(default)]
    pub retries: u32,
    /// for one of these reasons; none: for any.
    #[serde(default)]
    pub retry_on: Vec<FailureKind>,
    /// How many elements of its array run at once at most.
    #[serde(default)]
    pub array_most: Option<u32>,
}

/// Jobs that have to end before another starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// Which.
    pub jobs: Selection,
    /// Whether all of them have to end well.
    pub ended_well: bool,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It waits for its turn.
    Queued,
    /// It waits until somebody releases it.
    Held,
    /// It runs.
    Running,
    /// It has ended with exit code 0.
    Done,
    /// It has ended otherwise.
    Failed,
    /// Somebody has cancelled it.
    Cancelled,
    /// It never ran, because a job that it follows did not end well.
    Skipped,
}

impl JobState {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 7] = [
        ("queued", Self::Queued),
        ("held", Self::Held),
        ("running", Self::Running),
        ("done", Self::Done),
        ("failed", Self::Failed),
        ("cancelled", Self::Cancelled),
        ("skipped", Self::Skipped),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, state)| *state == self);
        found.map_or("", |(name, _)| name)
    }

    /// Whether nothing more becomes of it.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Held | Self::Running)
    }
}

/// What an attempt failed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The GPU had no memory left.
    OutOfMemory,
    /// A task of it fits on no GPU.
    NeverFits,
    /// It alone wants more than its user may have.
    OverQuota,
    /// Its GPU failed under it.
    GpuFault,
    /// A signal ended it.
    Signal,
    /// It ended with an exit code other than 0.
    Exit,
    /// It could not be started.
    NotStarted,
    /// Its time was over.
    TimeLimit,
    /// What became of it is not known: the node went down, or the process that watched it was killed.
    Lost,
}

impl FailureKind {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 9] = [
        ("out-of-memory", Self::OutOfMemory),
        ("never-fits", Self::NeverFits),
        ("over-quota", Self::OverQuota),
        ("gpu-fault", Self::GpuFault),
        ("signal", Self::Signal),
        ("exit", Self::Exit),
        ("not-started", Self::NotStarted),
        ("time-limit", Self::TimeLimit),
        ("lost", Self::Lost),
    ];
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// In one word.
    pub kind: FailureKind,
    /// Where that is known from: a line of its log, or a reason in words.
    pub evidence: Option<String>,
}

/// What was found out about an attempt that has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Why it failed; none: it ended well.
    pub failure: Option<Failure>,
    /// The GPUs it was placed on, by mgbd's numbers.
    pub gpus: Vec<u32>,
    /// Seconds that it waited for room on a GPU.
    pub waited_s: f64,
    /// The most GPU memory that one task of it had at once, in bytes, where the program said so.
    pub peak_bytes: Option<u64>,
    /// How often memory of it left a GPU,
    pub evictions: u64,
    /// and how much, in bytes.
    pub evicted_bytes: u64,
    /// How often it moved to another GPU.
    pub moves: u64,
    /// Its part of the time in which its GPUs had work while it was there, from 0 to 1.
    pub share: Option<f64>,
}

/// One run of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it was started, in seconds since 1970.
    pub started: f64,
    /// When it ended.
    pub ended: Option<f64>,
    /// Its exit code; none if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Processor time in seconds, of its process and of the children that it waited for.
    pub cpu_s: f64,
    /// The most host memory that one process of it had at once, in bytes.
    pub host_peak_bytes: u64,
    /// What was found out once it had ended.
    #[serde(flatten)]
    pub found: Found,
}

/// A job of the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Its number.
    pub id: JobId,
    /// What was asked for.
    #[serde(flatten)]
    pub spec: JobSpec,
    /// The stored variables of whoever submitted it.
    pub environment: u64,
    /// When it was submitted, in seconds since 1970.
    pub submitted: f64,
    /// Where it stands.
    pub state: JobState,
    /// Whether somebody has cancelled it while it runs.
    #[serde(default)]
    pub is_cancelled: bool,
    /// Its runs, the last one at the end.
    pub attempts: Vec<Attempt>,
}

impl JobRecord {
    /// What people call it: its name, else that of its program.
    pub fn shown_name(&self) -> String {
        let of_program = || {
            let name = self.spec.program.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        self.spec.name.clone().unwrap_or_else(of_program)
    }

    /// Whether it is run again after it has failed like that.
    pub fn is_retried(&self, failure: &Failure) -> bool {
        let on = &self.spec.retry_on;
        // Whether a job that was lost has done its work is not known, so that it is asked for by name.
        let is_reason = match failure.kind {
            FailureKind::Lost => on.contains(&FailureKind::Lost),
            kind => on.is_empty() || on.contains(&kind),
        };
        is_reason && self.attempts.len() as u64 <= u64::from(self.spec.retries)
    }
}

/// How the queue works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSettings {
    /// Whether no job is started.
    pub is_paused: bool,
    /// How many jobs run at once at most; none: as many as the node can use.
    pub parallel: Option<usize>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A job that waits.
    pub(crate) fn job(id: &str) -> JobRecord {
        JobRecord {
            id: id.parse().unwrap(),
            spec: JobSpec {
                text: "true".to_owned(),
                program: "/bin/true".into(),
                arguments: Vec::new(),
                folder: "/".into(),
                variables: Vec::new(),
                name: None,
                tags: Vec::new(),
                need: None,
                gpus: None,
                latency: false,
                deadline: None,
                priority: 0,
                after: Vec::new(),
                limit_s: None,
                retries: 0,
                retry_on: Vec::new(),
                array_most: None,
            },
            environment: 1,
            submitted: 0.0,
            state: JobState::Queued,
            is_cancelled: false,
            attempts: Vec::new(),
        }
    }

    #[test]
    fn who_is_run_again() {
        let failure = |kind| Failure { kind, evidence: None };
        let mut job = job("1");
        job.attempts = vec![Attempt {
            started: 1.0,
            ended: None,
            exit_code: None,
            signal: None,
            cpu_s: 0.0,
            host_peak_bytes: 0,
            found: Found::default(),
        }];
        assert!(!job.is_retried(&failure(FailureKind::Exit)));
        job.spec.retries = 1;
        assert!(job.is_retried(&failure(FailureKind::Exit)));
        assert!(
            !job.is_retried(&failure(FailureKind::Lost)),
            "it may have done its work"
        );
        job.spec.retry_on = vec![FailureKind::Lost, FailureKind::GpuFault];
        assert!(job.is_retried(&failure(FailureKind::Lost)));
        assert!(!job.is_retried(&failure(FailureKind::Exit)));
        job.attempts.push(job.attempts[0].clone());
        assert!(!job.is_retried(&failure(FailureKind::Lost)));
    }
}
