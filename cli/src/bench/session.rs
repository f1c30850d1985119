//! Runs what is not in the document yet: for each mix its jobs alone, then the mix under each policy.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mgb_command::daemon::{Private, Start};
use mgb_probe::byte_size::Bytes;

use super::alone;
use super::arm::Arm;
use super::bound::{Alone, Bound, Resources};
use super::compare;
use super::memory_pressure;
use super::mixes::Mix;
use super::profile::{self, ResultMatch};
use super::results::{JobResult, MixEntry, MixRun, Results, thinned};
use super::setting::ReadyNode;
use super::table;
use crate::batch::auto::peaks::Peaks;
use crate::batch::jobfile::FileJob;
use crate::batch::outcome::{BatchOutcome, JobOutcome};
use crate::measure::policy_batch::PolicyBatch;
use crate::measure::sampler::MeasuredSample;
use crate::parallel::Parallel;
use crate::stop::StopSignals;

/// Samples kept of a run: enough for its picture, in a document that may be kept for long.
const SAMPLES: usize = 250;

/// A measurement under way.
pub struct Session<'a> {
    /// The node and what is set up on it.
    pub setting: &'a ReadyNode,
    /// What is compared.
    pub arms: &'a [Arm],
    /// How often each arm is run.
    pub runs: usize,
    /// Where the document is.
    pub file: &'a Path,
    /// The folder for logs and sockets.
    pub folder: &'a Path,
    /// Asks to stop.
    pub stop: &'a StopSignals,
}

/// Jobs to run under an mgbd of their own.
#[derive(Clone, Copy)]
struct Playing<'a> {
    arm: &'a Arm,
    /// For the folder of its logs.
    name: &'a str,
    /// What mgbd remembers from before, and where it keeps what it learns; none: nothing.
    past: Option<&'a Path>,
    jobs: &'a [FileJob],
    parallel: Parallel,
    /// What jobs took of the host's memory before.
    peaks: &'a Peaks,
}

/// What came of them.
struct Played {
    batch: BatchOutcome,
    samples: Vec<MeasuredSample>,
    /// The order in which mgbd served.
    served: String,
}

impl Session<'_> {
    /// Measures these mixes. Returns early, with what there is, when asked to stop.
    ///
    /// # Errors
    /// When a job fails alone, when an mgbd cannot be started, or when the document cannot be written.
    pub fn measure(&self, mixes: &[Mix], results: &mut Results) -> Result<()> {
        for mix in mixes {
            if !self.prepare(mix, results)? {
                return Ok(());
            }
            for run in 1..=self.runs {
                for arm in self.arms {
                    if results.has(&mix.name, arm, run) {
                        mgb_command::tell!("{} under {arm}, run {run}: in the document already", mix.name);
                        continue;
                    }
                    let Some(done) = self.one(mix, arm, run, results)? else {
                        return Ok(());
                    };
                    results.runs.push(done);
                    self.write(results)?;
                    if let Some(figures) = results
                        .figures
                        .iter()
                        .find(|one| one.mix == mix.name && one.policy == arm.to_string())
                    {
                        mgb_command::tell!("{}", table::cells(figures).join("  "));
                    }
                }
            }
        }
        Ok(())
    }

    fn write(&self, results: &mut Results) -> Result<()> {
        results.figures = compare::of(results);
        results.write(self.file)
    }

    /// A mix's jobs alone, and its bound. False when asked to stop.
    fn prepare(&self, mix: &Mix, results: &mut Results) -> Result<bool> {
        let jobs = mix.jobs(&self.setting.folder(true), self.setting.capacity)?;
        let commands: Vec<String> = jobs.iter().map(|job| job.text.clone()).collect();
        mgb_command::tell!("{}: {}, in this order:", mix.name, mix.about);
        mgb_command::tell!("  {}", commands.join("; "));
        let unknown = alone::distinct(&jobs, |command| results.alone(command).is_some());
        if !unknown.is_empty() {
            mgb_command::tell!("{}: {} of its jobs alone, for the bound", mix.name, unknown.len());
            let arm = Arm {
                policy: "sa".to_owned(),
                queue: None,
                mps: self.arms.first().is_none_or(|arm| arm.mps),
                at_once: None,
            };
            let parallel = if self.setting.alone_on_node {
                Parallel::Count(1)
            } else {
                arm.parallel(self.setting.gpus())
            };
            let playing = Playing {
                arm: &arm,
                name: &format!("{}-alone", mix.name),
                past: None,
                jobs: &unknown,
                parallel,
                peaks: &Peaks::default(),
            };
            let Played { batch, samples, .. } = self.play(&playing)?;
            if self.stop.exit_code().is_some() {
                return Ok(false);
            }
            results.alone.extend(alone::entries(&batch, &samples)?);
        }
        let alone: Vec<Alone> = jobs
            .iter()
            .filter_map(|job| results.alone(&job.text))
            .map(|entry| Alone {
                wall_s: entry.wall_s,
                profile: entry.profile,
            })
            .collect();
        let node = Resources {
            gpus: self.setting.gpus(),
            cores: results.facts.machine.cores,
        };
        results.add_mix(MixEntry {
            name: mix.name.clone(),
            about: mix.about.clone(),
            jobs: commands,
            bound: Bound::of(&alone, node),
        })?;
        self.write(results)?;
        Ok(true)
    }

    /// One run; none when asked to stop meanwhile.
    fn one(&self, mix: &Mix, arm: &Arm, run: usize, results: &Results) -> Result<Option<MixRun>> {
        let folder = self.setting.folder(arm.places_processes());
        let jobs = mix.jobs(&folder, self.setting.capacity)?;
        let parallel = arm.parallel(self.setting.gpus());
        mgb_command::tell!(
            "{} under {arm}, run {run} of {}: {} jobs, {parallel} at once",
            mix.name,
            self.runs,
            jobs.len()
        );
        let short = self.warn_of_host_memory(&jobs, parallel, results);
        let mut peaks = Peaks::default();
        for job in &jobs {
            if let Some(alone) = results.alone(&job.text) {
                peaks.remember(job.kind(), alone.host_peak_bytes);
            }
        }
        let name = format!("{}-{arm}", mix.name).replace([' ', ':', '/'], "-");
        let past = self.folder.join(format!("{name}.past"));
        let playing = Playing {
            arm,
            name: &format!("{name}-{run}"),
            past: arm.rehearses().then_some(past.as_path()),
            jobs: &jobs,
            parallel,
            peaks: &peaks,
        };
        if arm.rehearses() && !past.exists() {
            mgb_command::tell!(
                "{} under {arm}: once unmeasured first, so that mgbd knows how long these jobs take",
                mix.name
            );
            self.play(&Playing {
                name: &format!("{name}-rehearsal"),
                ..playing
            })?;
        }
        if self.stop.exit_code().is_some() {
            return Ok(None);
        }
        let Played {
            mut batch,
            samples,
            served,
        } = self.play(&playing)?;
        if self.stop.exit_code().is_some() {
            return Ok(None);
        }
        let said: Vec<JobResult> = batch.jobs.iter().map(|job| job_result(job, results)).collect();
        if arm.places_processes() {
            let peak = |command: &str| results.alone(command).and_then(|alone| alone.gpu_peak_bytes);
            memory_pressure::explain(&mut batch, &said, peak, self.setting.capacity);
        }
        // A document goes to other machines, logs stay.
        for log in batch.jobs.iter_mut().filter_map(|job| job.log.as_mut()) {
            if let Ok(within) = log.strip_prefix(self.folder) {
                *log = within.to_owned();
            }
        }
        let done = MixRun {
            mix: mix.name.clone(),
            arm: arm.clone(),
            run,
            host_memory_short: short,
            rehearsed: arm.rehearses(),
            served: Some(served),
            results: said,
            batch,
            samples: thinned(samples, SAMPLES),
        };
        for (job, result) in done.batch.jobs.iter().zip(&done.results) {
            if result.output == ResultMatch::Other && job.exit_code == Some(0) {
                mgb_command::tell!("mgb bench: {} has another result than alone", job.command);
            }
        }
        Ok(Some(done))
    }

    fn play(&self, playing: &Playing<'_>) -> Result<Played> {
        let Playing { arm, name, .. } = playing;
        // A file of its own: what one run has learned is of no use to the next.
        let new = self.folder.join(format!("{name}.past"));
        let past = playing.past.unwrap_or(&new).display().to_string();
        let mut options = arm.options();
        options.extend(["--past".to_owned(), past]);
        let node = &self.setting.node;
        let start = Start {
            environment: self.setting.environment(arm),
            options,
            ..Start::at(self.folder.join("mgbd.sock"), &node.prefix, &node.machine)
        };
        let (mgbd, client) =
            Private::start(&start).with_context(|| format!("failed to measure under {arm}"))?;
        let logs: PathBuf = self.folder.join("logs").join(name);
        let batch = PolicyBatch {
            start: &start,
            hello: client.hello(),
            jobs: playing.jobs,
            parallel: playing.parallel,
            peaks: playing.peaks.clone(),
            logs: &logs,
        };
        let ended = batch.run(self.stop);
        let served = client.hello().queue.clone();
        drop((client, mgbd));
        let (batch, samples) = ended?;
        Ok(Played {
            batch,
            samples,
            served,
        })
    }

    /// A host that runs out of memory ends jobs for another reason than the one that is measured.
    fn warn_of_host_memory(&self, jobs: &[FileJob], parallel: Parallel, results: &Results) -> bool {
        let Parallel::Count(count) = parallel else {
            return false;
        };
        let mut peaks: Vec<u64> = jobs
            .iter()
            .filter_map(|job| results.alone(&job.text))
            .map(|alone| alone.host_peak_bytes)
            .collect();
        peaks.sort_unstable_by(|a, b| b.cmp(a));
        let largest: u64 = peaks.iter().take(count).sum();
        let free = crate::batch::auto::memory_free().unwrap_or(u64::MAX);
        if largest > free {
            mgb_command::tell!(
                "mgb bench: the {count} largest jobs together take {} of host memory, {} can be had: a smaller --capacity \
                 makes them smaller",
                Bytes(largest),
                Bytes(free)
            );
        }
        largest > free
    }
}

fn job_result(job: &JobOutcome, results: &Results) -> JobResult {
    // A log that cannot be read holds no result.
    let log = job.log.as_ref().and_then(|log| std::fs::read_to_string(log).ok());
    let log = log.unwrap_or_default();
    let alone = results
        .alone(&job.command)
        .and_then(|entry| entry.checksum.as_deref());
    JobResult {
        output: ResultMatch::compare(alone, profile::checksums(&log).as_deref()),
        profile: profile::of_log(&log),
    }
}
