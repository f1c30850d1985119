//! `-j auto`: looks at the node while a batch runs, and asks the controller how many jobs it can use.

mod controller;
mod host;
pub mod peaks;
mod settings;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use controller::{Controller, NodeSample, SETTLE};
use mgb_command::watch::MgbdWatch;
use mgb_probe::view::NodeView;
use peaks::{HostKind, Peaks};

pub use controller::{PACE, STEP};
pub use host::{memory_free, memory_total};
pub use settings::AutoSettings;

/// Of host memory, what is left to others: the page cache of programs' input, and other programs.
const SPARED: u64 = 20;

/// A job that runs.
#[derive(Clone, Copy, Debug)]
pub struct JobSample<'a> {
    /// What it is like.
    pub kind: HostKind<'a>,
    /// Its process; none: not known yet.
    pub pid: Option<u32>,
    /// When it was started.
    pub started: Instant,
}

/// Follows the node for one batch.
pub struct Follower {
    node: MgbdWatch,
    gpus: usize,
    cores: f64,
    peaks: Peaks,
    controller: Controller,
    /// When was looked last, and what had been used by then.
    last: Instant,
    idle: Duration,
    cpu: HashMap<u32, Duration>,
    wanted: usize,
}

impl Follower {
    /// From now on.
    ///
    /// # Errors
    /// When mgbd or the kernel cannot be looked at.
    pub fn new(settings: &AutoSettings) -> Result<Self> {
        let node = MgbdWatch::begin(&settings.socket).context("failed to look at mgbd for -j auto")?;
        let cores = std::thread::available_parallelism().context("failed to count cores for -j auto")?;
        host::memory_free().context(NO_MEMORY)?;
        let gpus = settings.gpus.max(1);
        Ok(Self {
            node,
            gpus,
            cores: cores.get() as f64,
            peaks: settings.peaks.clone(),
            controller: Controller::new(gpus),
            last: Instant::now(),
            idle: host::idle_time().context("failed to read /proc/stat for -j auto; give -j a number")?,
            cpu: HashMap::new(),
            wanted: gpus,
        })
    }

    /// A job has ended that had so much host memory at its peak.
    pub fn ended(&mut self, job: HostKind<'_>, peak_bytes: u64) {
        self.peaks.remember(job, peak_bytes);
    }

    /// How many shall run now. `next` are the [`STEP`] jobs that would be started, or fewer.
    pub fn wanted(
        &mut self,
        began: Instant,
        running: &[JobSample<'_>],
        finished: usize,
        next: &[HostKind<'_>],
    ) -> Result<usize> {
        // At the very start nothing has been used yet.
        if self.last.elapsed() < PACE {
            return Ok(self.wanted);
        }
        let Ok(view) = self.node.status() else {
            // mgbd writes it anew all the time, or is being replaced; it can be read the next time.
            return Ok(self.wanted);
        };
        let sample = self.sample(began, running, finished, next, &view)?;
        self.wanted = self.controller.wanted(&sample);
        Ok(self.wanted)
    }

    /// What one of these jobs may take of host memory, at most.
    fn of_largest(&self, jobs: &[HostKind<'_>], guess: u64) -> u64 {
        let each = jobs.iter().map(|job| self.peaks.of_next(*job, guess));
        each.max().unwrap_or(guess)
    }

    fn sample(
        &mut self,
        began: Instant,
        running: &[JobSample<'_>],
        finished: usize,
        next: &[HostKind<'_>],
        view: &NodeView,
    ) -> Result<NodeSample> {
        let passed = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        let idle = host::idle_time().unwrap_or(self.idle);
        let idle_cores = idle.saturating_sub(self.idle).as_secs_f64() / passed;
        self.idle = idle;
        let total = host::memory_total().context(NO_MEMORY)?;
        let free = host::memory_free().context(NO_MEMORY)?;
        let guess = total / (8 * self.gpus as u64);
        let (mut used_by_all, mut used_by_settled, mut young, mut owed) = (0.0, 0.0, 0, 0);
        let mut cpu = HashMap::new();
        for one in running {
            let age = one.started.elapsed();
            let used = one.pid.and_then(host::use_of).unwrap_or_default();
            let before = one
                .pid
                .and_then(|pid| self.cpu.get(&pid).copied())
                .unwrap_or_default();
            let cores = used.cpu.saturating_sub(before).as_secs_f64() / passed;
            used_by_all += cores;
            if age < SETTLE {
                young += 1;
            } else {
                used_by_settled += cores;
            }
            owed += self
                .peaks
                .still_to_come(one.kind, used.memory, used.memory_peak, age, guess);
            cpu.extend(one.pid.map(|pid| (pid, used.cpu)));
        }
        self.cpu = cpu;
        Ok(NodeSample {
            at: began.elapsed(),
            running: running.len(),
            young,
            finished,
            waiting: view.queue.len() + view.cut.queue as usize,
            // What a quota or a mask leaves, where this process may not use all cores.
            cores_free: idle_cores.min(self.cores - used_by_all).max(0.0),
            cores_used: used_by_settled,
            gpus: self.gpus,
            gpus_used: gpus_used(view),
            memory_free: free.saturating_sub(total / SPARED),
            memory_owed: owed,
            memory_next: self.of_largest(next, guess),
        })
    }
}

const NO_MEMORY: &str = "failed to read /proc/meminfo for -j auto; give -j a number";

/// The sum over GPUs of the share of it that works now.
fn gpus_used(view: &NodeView) -> f64 {
    let busy = view.gpus.iter().filter(|gpu| gpu.launches_in_flight > 0);
    busy.map(|gpu| (gpu.warps_charged as f64 / gpu.gpu.max_warps.max(1) as f64).min(1.0))
        .sum()
}
