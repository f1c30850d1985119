//! How many jobs to run at once, from what the node looks like: a pure function of samples.
//!
//! One more is wanted while nothing that jobs share is used up: the GPUs, cores, host memory; and while jobs
//! have not ended more slowly since more of them run. That tasks wait for room on a GPU is not a reason to
//! stop: a program that waits takes no core, its host phase before is over by the time it gets room, and mgbd
//! packs better the more it may choose from. Only where [`QUEUED`] wait for each GPU more would take host
//! memory for nothing. The number rises by [`STEP`] a [`PACE`] at first, then by one. That many start at once
//! does not make them wait for each other: mgbd has them take turns at the driver.

use std::time::Duration;

/// The time between two rises.
pub const PACE: Duration = Duration::from_millis(40);
/// Jobs more that one rise may bring,
pub const STEP: usize = 4;
/// up to so many for each GPU. From then on it brings one: how much of the GPUs is used shows late.
const SOON: usize = 8;
/// Tasks in mgbd's queue for each GPU from which on no more are wanted.
const QUEUED: usize = 8;
/// What a job does in so much time after its start says nothing about what it will do.
pub const SETTLE: Duration = Duration::from_secs(1);
/// Over how long the load of the GPUs is averaged: host phases shorter than that do not make a GPU look idle.
const SMOOTHING: f64 = 2.0;
/// GPUs are used up from this share of what they can hold.
const FULL: f64 = 0.9;
/// Jobs whose ends make a window of throughput, at least.
const WINDOW: usize = 8;
/// More jobs at once have to raise the throughput by this factor, or they are too many.
const WORTH: f64 = 1.03;
/// For how many windows a limit found that way holds, until more are tried again.
const HOLD: u32 = 4;
/// Without a sample for so long nobody knows how many jobs ran meanwhile.
const GAP: Duration = Duration::from_secs(1);

/// The node at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeSample {
    /// Since the start of the batch.
    pub at: Duration,
    /// Jobs that run,
    pub running: usize,
    /// of which so many were started less than [`SETTLE`] ago.
    pub young: usize,
    /// Jobs that have ended.
    pub finished: usize,
    /// Requests that wait in mgbd's queue.
    pub waiting: usize,
    /// Idle cores that the batch may use.
    pub cores_free: f64,
    /// Cores that the jobs use that are no longer young.
    pub cores_used: f64,
    /// How many GPUs there are.
    pub gpus: usize,
    /// The sum over GPUs of the share that is at work now: 0 without a launch in flight, else the warps
    /// charged over those that it can hold.
    pub gpus_used: f64,
    /// Host memory that can be had, in bytes.
    pub memory_free: u64,
    /// What the running jobs may still take of it.
    pub memory_owed: u64,
    /// What one of the next [`STEP`] jobs may take, at most.
    pub memory_next: u64,
}

/// What throughput some number of jobs had.
#[derive(Clone, Copy, Debug)]
struct Level {
    running: f64,
    per_second: f64,
}

/// The stretch of time whose throughput is being measured.
#[derive(Debug, Default)]
struct Window {
    began: Duration,
    /// Jobs that ran, and jobs that had ended, when it began.
    running: usize,
    finished: usize,
    /// Jobs times seconds since.
    job_seconds: f64,
}

impl Window {
    fn begin(sample: &NodeSample) -> Self {
        Self {
            began: sample.at,
            running: sample.running,
            finished: sample.finished,
            job_seconds: 0.0,
        }
    }
}

/// Follows a node.
#[derive(Debug)]
pub struct Controller {
    wanted: usize,
    raised: Duration,
    last: Duration,
    gpus_used: f64,
    window: Window,
    best: Option<Level>,
    /// Not more than this, for so many windows.
    limit: Option<(usize, u32)>,
}

impl Controller {
    /// Begins with one job a GPU.
    pub fn new(gpus: usize) -> Self {
        Self {
            wanted: gpus.max(1),
            raised: Duration::ZERO,
            last: Duration::ZERO,
            gpus_used: 0.0,
            window: Window::default(),
            best: None,
            limit: None,
        }
    }

    /// How many jobs shall run, given what the node looks like now. Never none.
    pub fn wanted(&mut self, sample: &NodeSample) -> usize {
        self.observe(sample);
        if sample.memory_free < sample.memory_owed {
            // The running jobs would not all fit: a job that ends is not followed by another.
            self.wanted = sample.running.saturating_sub(1).max(1);
        } else if let Some((limit, _)) = self.limit
            && self.wanted > limit
        {
            self.wanted = limit;
        } else if self.may_rise(sample)
            && let Some(more) = [STEP, 1].into_iter().find(|&more| self.may_add(sample, more))
        {
            self.wanted = sample.running + more;
            self.raised = sample.at;
        }
        self.wanted
    }

    fn may_rise(&self, sample: &NodeSample) -> bool {
        // Fewer run than are wanted already.
        let pending = sample.running < self.wanted;
        let paced = sample.at.saturating_sub(self.raised) >= PACE;
        !pending && paced && !self.gpus_are_full(sample)
    }

    fn may_add(&self, sample: &NodeSample, more: usize) -> bool {
        let at_first = sample.running + more <= SOON * sample.gpus;
        (more == 1 || at_first)
            && self.limit.is_none_or(|(limit, _)| sample.running + more <= limit)
            && sample.waiting + more <= QUEUED * sample.gpus
            && has_cores(sample, more)
            && has_memory(sample, more)
    }

    /// With two jobs a GPU one's kernels follow the other's; more only make each other slower.
    fn gpus_are_full(&self, sample: &NodeSample) -> bool {
        sample.running >= 2 * sample.gpus && self.gpus_used >= FULL * sample.gpus as f64
    }

    fn observe(&mut self, sample: &NodeSample) {
        let passed = sample.at.saturating_sub(self.last).as_secs_f64();
        self.last = sample.at;
        let weight = 1.0 - (-passed / SMOOTHING).exp();
        self.gpus_used += weight * (sample.gpus_used - self.gpus_used);
        if passed > GAP.as_secs_f64() {
            self.window = Window::begin(sample);
            return;
        }
        self.window.job_seconds += passed * sample.running as f64;
        let finished = sample.finished.saturating_sub(self.window.finished);
        let seconds = sample.at.saturating_sub(self.window.began).as_secs_f64();
        // Each job that ran when it began should have had the time to end.
        if finished < WINDOW.max(self.window.running) || seconds <= 0.0 {
            return;
        }
        let level = Level {
            running: self.window.job_seconds / seconds,
            per_second: finished as f64 / seconds,
        };
        self.window = Window::begin(sample);
        self.judge(level, sample.gpus);
    }

    /// Compares a window with the best so far.
    fn judge(&mut self, level: Level, gpus: usize) {
        self.limit = self
            .limit
            .and_then(|(limit, windows)| Some((limit, windows.checked_sub(1)?)));
        match self.best {
            // Jobs differ, and so do windows: only clearly more jobs that do not get clearly more done are
            // too many.
            Some(best)
                if level.running > 1.25 * best.running && level.per_second < WORTH * best.per_second =>
            {
                // Jobs that end between two samples leave an average of nearly none. Where none may run no
                // window ends either, and a limit of none would hold for ever.
                let least = gpus.max(1);
                self.limit = Some(((best.running.ceil() as usize).max(least), HOLD));
                // Later windows are compared with what comes now.
                self.best = None;
            }
            Some(best) if level.per_second <= best.per_second => {}
            _ => self.best = Some(level),
        }
    }
}

/// Whether cores are left for so many more, once the young ones use what the others do.
fn has_cores(sample: &NodeSample, more: usize) -> bool {
    let settled = sample.running.saturating_sub(sample.young);
    let each = match settled {
        0 => 1.0,
        // A job that waits now will compute later.
        settled => (sample.cores_used / settled as f64).clamp(0.25, 1.0),
    };
    sample.cores_free >= each * (sample.young + more) as f64
}

fn has_memory(sample: &NodeSample, more: usize) -> bool {
    let next = sample.memory_next.saturating_mul(more as u64);
    let taken = sample.memory_owed.saturating_add(next);
    sample.memory_free >= taken
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
