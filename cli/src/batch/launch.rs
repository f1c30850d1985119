//! How a job is started through `mgb run`, and what it has left behind when it has ended.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mgb_probe::Deadline;

use super::cause::Cause;
use super::outcome::{Evictions, Stretch};
use super::trace::{self, Traced};
use crate::run::ProcessPlacement;

/// What `mgb run` is told.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Where it writes how a whole process was placed.
    pub placement: &'a Path,
    /// What the job's processes know it by.
    pub name: &'a str,
    /// GPU memory of the whole process in bytes.
    pub need: Option<u64>,
    /// How many GPUs it is placed on as one.
    pub gpus: Option<u32>,
    /// When it is to have ended.
    pub deadline: Option<Deadline>,
    /// The file of the program.
    pub program: &'a Path,
    /// The arguments that it gets.
    pub arguments: &'a [String],
}

impl Launch<'_> {
    /// The arguments of `mgb` that start it.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["run".into(), "--placement".into(), self.placement.into()];
        let mut option = |name: &str, value: Option<String>| {
            let value = value.into_iter();
            arguments.extend(value.flat_map(|value| [name.into(), value.into()]));
        };
        option("--job", Some(self.name.to_owned()));
        option("--need", self.need.map(|bytes| bytes.to_string()));
        option("--gpus", self.gpus.map(|count| count.to_string()));
        option("--deadline", self.deadline.map(|deadline| format!("@{deadline}")));
        arguments.extend(["--".into(), self.program.into()]);
        arguments.extend(self.arguments.iter().map(OsString::from));
        arguments
    }
}

/// Times of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobTimes {
    /// The start of the batch, from which the others count.
    pub began: Instant,
    /// Until its process was started.
    pub queued: Duration,
    /// Until it had ended.
    pub ended: Duration,
}

/// What a job has left behind.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// Where `mgb run` wrote how a whole process was placed; it is removed.
    pub placement: &'a Path,
    /// Where its processes wrote down their tasks.
    pub trace: &'a Path,
    /// What they know it by.
    pub name: &'a str,
    /// What it printed.
    pub log: &'a Path,
}

impl Left<'_> {
    /// What it did on the GPUs, and why it failed, if it did.
    pub fn judge(
        &self,
        exit_code: Option<i32>,
        signal: Option<i32>,
        times: JobTimes,
    ) -> (Traced, Option<Cause>) {
        let placed = read_placement(self.placement);
        let traced = match &placed {
            Some(placement) => of_whole_process(placement, times),
            None => trace::of_job(self.trace, self.name, times.began),
        };
        let refused = placed.and_then(|placement| placement.refused);
        let cause = match refused {
            Some(log_line) if exit_code != Some(0) => Some(Cause::NeverFits { log_line }),
            _ => Cause::judge(exit_code, signal, &traced.failures, self.log),
        };
        (traced, cause)
    }
}

fn of_whole_process(placement: &ProcessPlacement, times: JobTimes) -> Traced {
    let waited = Duration::from_nanos(placement.waited_ns);
    let whole = |gpu| Stretch {
        gpu,
        task: "process".to_owned(),
        from: times.queued + waited,
        to: times.ended,
        peak_bytes: None,
        away: Vec::new(),
    };
    Traced {
        gpus: placement.gpus().collect(),
        waited,
        stretches: placement.gpus().map(whole).collect(),
        evictions: Evictions::default(),
        moves: 0,
        failures: Vec::new(),
        expected_end: placement.expected_end,
        share: None,
        latency: None,
    }
}

fn read_placement(file: &Path) -> Option<ProcessPlacement> {
    let text = fs::read(file).ok()?;
    let _ = fs::remove_file(file);
    serde_json::from_slice(&text).ok()
}
