//! Looks at mgbd's node view again and again while a batch runs: what the driver says is used, what tasks
//! have reserved, and how many requests wait.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mgb_command::watch::MgbdWatch;
use mgb_probe::view::{GpuView, NodeView};
use serde::{Deserialize, Serialize};

use crate::batch::outcome::{JobOutcome, JobState, as_seconds};

/// The time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// The node at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredSample {
    /// Since the start of the batch.
    #[serde(rename = "at_s", with = "as_seconds")]
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
    thread: JoinHandle<Vec<MeasuredSample>>,
}

impl Sampler {
    /// Looks at the mgbd of this socket from now on: the batch starts now.
    pub fn start(socket: &Path) -> Result<Self> {
        let mut node = MgbdWatch::begin(socket).context("failed to look at mgbd")?;
        let before = node.status()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let began = Instant::now();
        let thread = std::thread::Builder::new()
            .name("mgb-sampler".to_owned())
            .spawn(move || {
                let mut samples = Vec::new();
                while !stopped.load(Ordering::Relaxed) {
                    // mgbd writes it anew all the time; one that cannot be read is a gap.
                    if let Ok(view) = node.status() {
                        samples.push(sample(began.elapsed(), &before, &view));
                    }
                    std::thread::sleep(SAMPLE_INTERVAL);
                }
                samples
            })
            .context("failed to start a thread")?;
        Ok(Self { stop, thread })
    }

    /// What it saw. `jobs` are the batch's: those not started yet wait as well.
    pub fn finish(self, jobs: &[JobOutcome]) -> Vec<MeasuredSample> {
        self.stop.store(true, Ordering::Relaxed);
        let mut samples = self.thread.join().unwrap_or_default();
        for sample in &mut samples {
            sample.queue += unstarted(jobs, sample.at);
        }
        samples
    }
}

fn unstarted(jobs: &[JobOutcome], at: Duration) -> usize {
    let waits = |job: &&JobOutcome| job.state != JobState::NotStarted && job.queued > at;
    jobs.iter().filter(waits).count()
}

fn sample(at: Duration, before: &NodeView, view: &NodeView) -> MeasuredSample {
    let used = |(index, gpu): (usize, &GpuView)| {
        let free_before = before.gpus.get(index).and_then(|gpu| gpu.driver_free_bytes);
        match (free_before, gpu.driver_free_bytes) {
            (Some(before), Some(now)) => before.saturating_sub(now),
            _ => gpu.resident_bytes + gpu.contexts_bytes,
        }
    };
    MeasuredSample {
        at,
        used_bytes: view.gpus.iter().enumerate().map(used).collect(),
        reserved_bytes: view.gpus.iter().map(|gpu| gpu.reserved_bytes).collect(),
        queue: view.queue.len() + view.cut.queue as usize,
    }
}

#[cfg(test)]
mod tests {
    use mgb_probe::view::WaitView;

    use super::*;
    use crate::batch::job::never_started;
    use crate::batch::jobfile::FileJob;

    fn view(free: Option<u64>, waiting: usize) -> NodeView {
        let gpu = mgb_probe::Gpu {
            index: 0,
            node_index: 0,
            uuid: "GPU-0".to_owned(),
            name: "a GPU".to_owned(),
            total_bytes: 100,
            usable_bytes: 100,
            context_bytes: 5,
            max_warps: 64,
            multiprocessors: Default::default(),
        };
        let gpu = GpuView {
            gpu,
            driver_free_bytes: free,
            reserved_bytes: 30,
            resident_bytes: 20,
            contexts_bytes: 5,
            processes: 1,
            ..GpuView::default()
        };
        let wait = WaitView {
            over_quota: false,
            limited: None,
            waits_for: None,
            deadline_ms: None,
            ends_ms: None,
            gpu_lost: false,
            pid: 1,
            uid: 0,
            label: String::new(),
            gpu: None,
            bytes: 1,
            expected_bytes: 1,
            growth: false,
            waited_ms: 0,
            class: mgb_probe::Class::Batch,
            has_no_right: false,
            held_back: None,
        };
        NodeView {
            gpus: vec![gpu],
            queue: vec![wait; waiting],
            ..NodeView::default()
        }
    }

    #[test]
    fn memory_counts_from_before_the_batch() {
        let seen = sample(Duration::ZERO, &view(Some(100), 0), &view(Some(60), 2));
        assert_eq!(
            (seen.used_bytes, seen.reserved_bytes, seen.queue),
            (vec![40], vec![30], 2)
        );
    }

    #[test]
    fn without_a_driver_that_tells_the_clients_are_believed() {
        let seen = sample(Duration::ZERO, &view(None, 0), &view(None, 0));
        assert_eq!(seen.used_bytes, [25]);
    }

    #[test]
    fn jobs_not_started_yet_wait() {
        let job = FileJob {
            number: 1,
            text: "true".to_owned(),
            need: None,
            gpus: None,
            deadline: None,
            program: "true".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
        };
        // Started after so many seconds, or after all never.
        let later = |seconds| never_started(&job, Duration::from_secs(seconds), Some("why".to_owned()));
        let never = never_started(&job, Duration::from_secs(9), None);
        let jobs = [later(1), later(2), never];
        let counts = [0, 1, 2].map(|at| unstarted(&jobs, Duration::from_secs(at)));
        assert_eq!(counts, [2, 1, 0]);
    }
}
