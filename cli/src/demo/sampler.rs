//! Looks at mgbd's node view again and again while a batch runs: what the driver says is used, what tasks have reserved,
//! and how many requests wait.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mgb_probe::Client;
use mgb_probe::view::NodeView;
use serde::Serialize;

use crate::batch::outcome::{JobOutcome, State, as_seconds};

/// How often.
const PERIOD: Duration = Duration::from_millis(50);

/// The node at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Since the start of the batch.
    #[serde(rename = "at_s", serialize_with = "as_seconds")]
    pub at: Duration,
    /// Bytes in use on each GPU as the driver says, less what was in use before the batch.
    pub used_bytes: Vec<u64>,
    /// Bytes reserved on each GPU for tasks. Under a policy that does not know needs, none.
    pub reserved_bytes: Vec<u64>,
    /// Jobs that wait: for their start, or for room on a GPU.
    pub queue: usize,
}

/// A thread that looks, until it is asked for what it saw.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Sampler {
    /// Looks at the mgbd of this socket from now on: the batch starts now.
    pub fn start(socket: &Path) -> Result<Self> {
        let client = Client::observe(socket).context("failed to look at mgbd")?;
        let before = client.status()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let began = Instant::now();
        let thread = std::thread::Builder::new()
            .name("mgb-sampler".to_owned())
            .spawn(move || {
                let mut samples = Vec::new();
                while !stopped.load(Ordering::Relaxed) {
                    // mgbd writes it anew all the time; one that cannot be read is a gap.
                    if let Ok(view) = client.status() {
                        samples.push(sample(began.elapsed(), &before, &view));
                    }
                    std::thread::sleep(PERIOD);
                }
                samples
            })
            .context("failed to start a thread")?;
        Ok(Self { stop, thread })
    }

    /// What it saw. `jobs` are the batch's: those not started yet wait as well.
    pub fn finish(self, jobs: &[JobOutcome]) -> Vec<Sample> {
        self.stop.store(true, Ordering::Relaxed);
        let mut samples = self.thread.join().unwrap_or_default();
        for sample in &mut samples {
            sample.queue += unstarted(jobs, sample.at);
        }
        samples
    }
}

fn unstarted(jobs: &[JobOutcome], at: Duration) -> usize {
    let waits = |job: &&JobOutcome| job.state != State::NotStarted && job.queued > at;
    jobs.iter().filter(waits).count()
}

fn sample(at: Duration, before: &NodeView, view: &NodeView) -> Sample {
    let used = |(index, gpu): (usize, &mgb_probe::view::GpuView)| {
        let free_before = before.gpus.get(index).and_then(|gpu| gpu.driver_free_bytes);
        match (free_before, gpu.driver_free_bytes) {
            (Some(before), Some(now)) => before.saturating_sub(now),
            _ => gpu.resident_bytes + gpu.contexts_bytes,
        }
    };
    Sample {
        at,
        used_bytes: view.gpus.iter().enumerate().map(used).collect(),
        reserved_bytes: view.gpus.iter().map(|gpu| gpu.reserved_bytes).collect(),
        queue: view.queue.len(),
    }
}
