//! The document of a measurement: written anew after each mix under each policy, so that one that was stopped
//! can be resumed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use mgb_command::out;
use serde::{Deserialize, Serialize};

use super::arm::Arm;
use super::bench_plan::BenchRequest;
use super::bound::Bound;
use super::facts::Facts;
use super::figures::Figures;
use super::profile::{Profile, ResultMatch};
use crate::batch::outcome::{BatchOutcome, JobOutcome, JobState};
use crate::measure::sampler::MeasuredSample;

/// The version of [`Results`]'s layout.
pub const VERSION: u32 = 1;

/// The document of a bench's results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The version of the layout.
    pub version: u32,
    /// The facts about what was measured on.
    #[serde(flatten)]
    pub facts: Facts,
    /// What was asked for last.
    pub asked: BenchRequest,
    /// The mixes, with all jobs in their order.
    pub mixes: Vec<MixEntry>,
    /// Each distinct job alone.
    pub alone: Vec<AloneEntry>,
    /// Each mix under each policy, once or more often.
    pub runs: Vec<MixRun>,
    /// What follows from all that, a line a mix and policy. See `compare::of`.
    pub figures: Vec<Figures>,
}

/// The results of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixEntry {
    /// How it is asked for.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// The commands, in the order in which they were queued.
    pub jobs: Vec<String>,
    /// The lower bounds on its makespan and its mean turnaround.
    pub bound: Bound,
}

/// A job alone, as its plain binary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AloneEntry {
    /// The command of the job.
    pub command: String,
    /// Seconds from its process's start to its end.
    pub wall_s: f64,
    /// Processor seconds that the job took.
    pub cpu_s: f64,
    /// The most host memory it had, in bytes.
    pub host_peak_bytes: u64,
    /// The most GPU memory it had as sampled, in bytes, with its context.
    #[serde(default)]
    pub gpu_peak_bytes: Option<u64>,
    /// Where its time went, if it says so.
    pub profile: Option<Profile>,
    /// The checksum of its result, if it prints one.
    pub checksum: Option<String>,
}

/// One run of a mix.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixRun {
    /// The mix's name.
    pub mix: String,
    /// The arm that was run.
    #[serde(flatten)]
    pub arm: Arm,
    /// Which run of the same, from 1.
    pub run: usize,
    /// Whether the largest jobs that could run at once may have had more host memory than there was.
    pub host_memory_short: bool,
    /// Whether the mix had been played before under an mgbd that this one took over from.
    #[serde(default)]
    pub rehearsed: bool,
    /// The order in which mgbd served: the default of `queue` may be another one in another version.
    #[serde(default)]
    pub served: Option<String>,
    /// Jobs with their times: `queued_s` is a job's start, `turnaround_s` its end.
    pub batch: BatchOutcome,
    /// What each job's result was, and where its time went; in the order of `batch.jobs`.
    pub results: Vec<JobResult>,
    /// The node meanwhile.
    pub samples: Vec<MeasuredSample>,
}

/// What a job said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// Its result beside that of the job alone.
    pub output: ResultMatch,
    /// Where its time went, if it says so.
    pub profile: Option<Profile>,
}

impl MixRun {
    /// Jobs that did not end with 0, or with another result than alone.
    pub fn failed(&self) -> usize {
        let wrong = |(job, result): &(&JobOutcome, &JobResult)| {
            job.state != JobState::Done || result.output == ResultMatch::Other
        };
        self.batch.jobs.iter().zip(&self.results).filter(wrong).count()
    }
}

impl Results {
    /// A new document.
    pub fn new(facts: Facts) -> Self {
        Self {
            version: VERSION,
            facts,
            asked: BenchRequest::default(),
            mixes: Vec::new(),
            alone: Vec::new(),
            runs: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// Reads a document.
    ///
    /// # Errors
    /// When it is none, or of another version.
    pub fn read(file: &Path) -> Result<Self> {
        let shown = file.display();
        let text = fs::read(file).with_context(|| format!("failed to read {shown}"))?;
        let results: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{shown} is not a document of mgb bench of this version"))?;
        if results.version != VERSION {
            bail!(
                "{shown} has layout {}, this mgb writes {VERSION}",
                results.version
            );
        }
        Ok(results)
    }

    /// To be gone on with where these are the facts.
    ///
    /// # Errors
    /// When something differs, all of which is named.
    pub fn go_on(self, now: &Facts) -> Result<Self> {
        let differences = self.facts.differences(now);
        if !differences.is_empty() {
            bail!(
                "these differ:\n  {}\nbegin anew with another --output",
                differences.join("\n  ")
            );
        }
        Ok(self)
    }

    /// Adds a mix, unless it is there.
    ///
    /// # Errors
    /// When it is there with other jobs.
    pub fn add_mix(&mut self, entry: MixEntry) -> Result<()> {
        match self.mixes.iter().find(|mix| mix.name == entry.name) {
            Some(known) if known.jobs != entry.jobs => bail!(
                "the mix {} has other jobs than in the document; give another --output to begin anew",
                entry.name
            ),
            Some(_) => {}
            None => self.mixes.push(entry),
        }
        Ok(())
    }

    /// What a job takes alone.
    pub fn alone(&self, command: &str) -> Option<&AloneEntry> {
        self.alone.iter().find(|entry| entry.command == command)
    }

    /// Whether this run is there.
    pub fn has(&self, mix: &str, arm: &Arm, run: usize) -> bool {
        let same = |one: &&MixRun| one.mix == mix && one.arm == *arm && one.run == run;
        self.runs.iter().find(same).is_some()
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, file: &Path) -> Result<()> {
        out::replace(file, |new| Ok(serde_json::to_writer(new, self)?))
            .with_context(|| format!("failed to write {}", file.display()))
    }
}

/// No more than so many samples, each the most of its stretch of time: pictures are not wider than that.
pub fn thinned(samples: Vec<MeasuredSample>, most: usize) -> Vec<MeasuredSample> {
    let each = samples.len().div_ceil(most.max(1)).max(1);
    let greater = |a: Vec<u64>, b: &[u64]| -> Vec<u64> { a.iter().zip(b).map(|(a, b)| *a.max(b)).collect() };
    let merge = |stretch: &[MeasuredSample]| {
        let (first, rest) = stretch.split_first()?;
        Some(rest.iter().fold(first.clone(), |sum, sample| MeasuredSample {
            at: sum.at,
            used_bytes: greater(sum.used_bytes, &sample.used_bytes),
            reserved_bytes: greater(sum.reserved_bytes, &sample.reserved_bytes),
            queue: sum.queue.max(sample.queue),
        }))
    };
    samples.chunks(each).filter_map(merge).collect()
}

#[cfg(test)]
#[path = "results_tests.rs"]
pub mod tests;
