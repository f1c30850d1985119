//! How busy programs outside MGB keep the GPUs: the driver's utilisation, less what clients account for.
//!
//! The driver's figure covers up to a second that is over, so it still has the work of tasks that have just
//! ended. For that long what is left counts only as far as it was seen before.

use std::time::Duration;

use crate::Broker;
use crate::broker::{Activity, WHOLE};
use crate::node::NodeDriver;

/// The driver is asked so often at most.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// How long after a task's end its work may be in the driver's figure.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(1500);
/// Less than this is noise.
const LEAST_PART: u32 = WHOLE / 20;

/// What programs outside MGB do on each GPU.
#[derive(Debug)]
pub(crate) struct ForeignLoads {
    sampled: Option<Duration>,
    /// By GPU, in parts of [`WHOLE`].
    parts: Vec<u32>,
}

impl ForeignLoads {
    pub(crate) fn new(gpus: usize) -> ForeignLoads {
        ForeignLoads {
            sampled: None,
            parts: vec![0; gpus],
        }
    }

    /// The part of the last time in which each GPU had work of programs outside MGB, in parts of [`WHOLE`].
    /// `activity`: what clients did.
    pub(crate) fn sample(
        &mut self,
        node: &dyn NodeDriver,
        broker: &Broker,
        activity: &[Activity],
        now: Duration,
    ) -> Vec<u32> {
        let is_due = |at: Duration| now.saturating_sub(at) >= SAMPLE_INTERVAL;
        if self.sampled.is_none_or(is_due) {
            self.sampled = Some(now);
            for (gpu, part) in self.parts.iter_mut().enumerate() {
                let own = activity.iter().filter(|seen| seen.gpu == gpu);
                let own = own.fold(0u32, |sum, seen| sum.saturating_add(seen.busy));
                // A driver that does not say shows no load.
                let all = node
                    .utilisation(gpu)
                    .map_or(0, |percent| percent.min(100) * (WHOLE / 100));
                let seen = all.saturating_sub(own);
                let seen = if seen < LEAST_PART { 0 } else { seen };
                let has_settled = |ended: Duration| now.saturating_sub(ended) >= SETTLE_TIMEOUT;
                *part = if broker.work_ended(gpu).is_none_or(has_settled) {
                    seen
                } else {
                    seen.min(*part)
                };
            }
        }
        self.parts.clone()
    }
}
