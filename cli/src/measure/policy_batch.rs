//! One list of jobs under one policy, with an mgbd of its own, and the node looked at meanwhile.

use std::path::Path;

use anyhow::{Context, Result};
use mgb_command::daemon::Start;
use mgb_probe::Hello;

use super::sampler::{MeasuredSample, Sampler};
use crate::batch::auto::{self, peaks::Peaks};
use crate::batch::engine;
use crate::batch::jobfile::FileJob;
use crate::batch::outcome::BatchOutcome;
use crate::batch::progress::BatchProgress;
use crate::batch::setup::Setup;
use crate::parallel::Parallel;
use crate::stop::StopSignals;

/// What to run, and how.
#[derive(Debug)]
pub struct PolicyBatch<'a> {
    /// The mgbd that runs.
    pub start: &'a Start<'a>,
    /// What it said.
    pub hello: &'a Hello,
    /// The jobs, in the order in which they are queued.
    pub jobs: &'a [FileJob],
    /// How many at once.
    pub parallel: Parallel,
    /// What jobs took of the host's memory before.
    pub peaks: Peaks,
    /// The folder for logs; made where it is not there.
    pub logs: &'a Path,
}

impl PolicyBatch<'_> {
    /// Runs the jobs. Says on standard error how it goes.
    pub fn run(&self, stop: &StopSignals) -> Result<(BatchOutcome, Vec<MeasuredSample>)> {
        let logs = self.logs.to_owned();
        std::fs::create_dir_all(&logs)
            .with_context(|| format!("failed to make the folder {}", logs.display()))?;
        let start = self.start;
        let mut environment = start.environment.clone();
        environment.push(("MGB_SOCKET".into(), start.socket.clone().into()));
        environment.push(("MGB_PREFIX".into(), start.prefix.path().into()));
        let gpus = self.hello.gpus.len();
        let setup = Setup {
            mgb: start.prefix.mgb()?,
            machine: start.machine.clone(),
            environment,
            parallel: self.parallel,
            auto: auto::AutoSettings {
                socket: start.socket.clone(),
                gpus,
                peaks: self.peaks.clone(),
            },
            trace: logs.join("trace.jsonl"),
            logs,
            again: false,
        };
        let mut progress = BatchProgress::new(self.jobs.len());
        let sampler = Sampler::start(&start.socket)?;
        let ended = engine::run(self.jobs, &setup, stop, &mut progress);
        progress.finish();
        let (outcomes, makespan) = ended?;
        let samples = sampler.finish(&outcomes);
        let batch = BatchOutcome::new(self.hello.policy.clone(), gpus, self.parallel, outcomes, makespan);
        Ok((batch, samples))
    }
}
