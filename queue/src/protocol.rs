//! What commands ask the queue's service, a line of JSON each, and what it answers.

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::id::{JobId, Selection};
use crate::record::{Dependency, JobRecord, JobSpec, JobState, QueueSettings};

/// The version of [`Listing`]'s layout.
pub const VERSION: u32 = 1;

/// The longest line that is read: job files of some 100,000 lines.
const LONGEST: u64 = 64 << 20;

/// What a command asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// To run these.
    Submit(Box<Submission>),
    /// To tell of these.
    List(JobFilter),
    /// The same, once all of them have ended.
    Wait(JobFilter),
    /// To end these, or never to start them.
    Cancel(JobFilter),
    /// Not to start these.
    Hold(JobFilter),
    /// To start these as others.
    Release(JobFilter),
    /// To change what was asked for.
    Edit(JobFilter, Edit),
    /// To forget these, which have ended, with their logs.
    Clean(JobFilter),
    /// To work otherwise.
    Settings {
        /// Whether no job is started.
        is_paused: Option<bool>,
        /// How many jobs run at once at most.
        places: Option<Places>,
    },
    /// To end the service; jobs that run go on.
    Stop,
}

/// How many jobs run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Places {
    /// As many as the node can use.
    Auto,
    /// So many at most.
    Count(usize),
}

/// Jobs to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Submission {
    /// Each gets a number.
    pub jobs: Vec<JobSpec>,
    /// Indices of an array: then the only job is run once for each.
    pub array: Option<Vec<u32>>,
    /// The variables of whoever submits them, as `execve` takes them, each with a NUL at its end.
    pub environment: Vec<u8>,
    /// Whether they wait until somebody releases them.
    pub is_held: bool,
}

/// Which jobs are meant: those that everything here names. Nothing names all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobFilter {
    /// By number.
    #[serde(default)]
    pub jobs: Vec<Selection>,
    /// By name.
    #[serde(default)]
    pub name: Option<String>,
    /// By a tag.
    #[serde(default)]
    pub tag: Option<String>,
    /// By what has become of them.
    #[serde(default)]
    pub states: Vec<JobState>,
}

impl JobFilter {
    /// Whether this job is meant.
    pub fn takes(&self, job: &JobRecord) -> bool {
        let named = |name: &String| job.shown_name() == *name;
        (self.jobs.is_empty() || self.jobs.iter().any(|jobs| jobs.names(job.id)))
            && self.name.as_ref().is_none_or(named)
            && self.tag.as_ref().is_none_or(|tag| job.spec.tags.contains(tag))
            && (self.states.is_empty() || self.states.contains(&job.state))
    }
}

/// What is to change of jobs that wait; of those that run, only what counts for later attempts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Edit {
    /// The priority.
    pub priority: Option<i32>,
    /// The time limit in seconds; 0: none.
    pub limit_s: Option<f64>,
    /// How often it is run again.
    pub retries: Option<u32>,
    /// The name.
    pub name: Option<String>,
    /// The jobs that it follows.
    pub after: Option<Vec<Dependency>>,
    /// How many elements of its array run at once at most; 0: any number.
    pub array_most: Option<u32>,
}

/// What the service answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// These were submitted.
    Submitted(Vec<JobId>),
    /// What is known of jobs.
    Listing(Box<Listing>),
    /// These were changed.
    Changed(Vec<JobId>),
    /// What was asked for makes no sense, for this reason.
    Refused(String),
    /// The service has failed to do it.
    Failed(String),
    /// Nothing was done: this service ends, and the next one is to be asked.
    Ending,
}

/// The queue, and jobs of it: what `mgb queue list --json` prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listing {
    /// The version of this layout.
    pub version: u32,
    /// The process of the service.
    pub pid: u32,
    /// Where its state and the logs are.
    pub folder: PathBuf,
    /// How it works.
    pub settings: QueueSettings,
    /// Why it starts no jobs, although there are some.
    pub trouble: Option<String>,
    /// The jobs that were asked for.
    pub jobs: Vec<ListedJob>,
}

/// A job, with what shows only while one looks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListedJob {
    /// What is stored of it.
    #[serde(flatten)]
    pub job: JobRecord,
    /// Why it waits.
    pub waits_for: Option<String>,
    /// Its process, while it runs.
    pub pid: Option<u32>,
    /// What the last attempt printed.
    pub log: Option<PathBuf>,
}

/// Reads one message; `None` at the end.
///
/// # Errors
/// When the line is too long, is no such message, or does not come in time.
pub fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> Result<Option<T>> {
    let mut line = Vec::new();
    let read = from.by_ref().take(LONGEST + 1).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if read as u64 > LONGEST {
        bail!("a message of more than {} MiB", LONGEST >> 20);
    }
    serde_json::from_slice(&line)
        .map(Some)
        .context("failed to understand a message")
}

/// Writes one message.
///
/// # Errors
/// The system's.
pub fn write(to: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(to.write_all(&line)?)
}
