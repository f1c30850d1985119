//! The demo's one table, and what must be said with it.

use std::fmt::Write;

use mgb_command::table::{Table, plural, seconds};
use serde::Serialize;

use super::jobs::HostPhase;
use crate::batch::outcome::BatchOutcome;
use crate::measure::sampler::MeasuredSample;

/// What the demo measured.
#[derive(Debug, Serialize)]
pub struct DemoOutcome {
    /// The layout of this document.
    pub version: u32,
    /// Software GPUs; else real ones.
    pub software: bool,
    /// The product's name.
    pub gpu: String,
    /// Bytes that tasks could use on each.
    pub capacity_bytes: u64,
    /// What the host phases did.
    pub host_phase: &'static str,
    /// One entry a policy.
    pub policies: Vec<PolicyRow>,
}

/// The row of a policy.
#[derive(Debug, Serialize)]
pub struct PolicyRow {
    /// How many times shorter its makespan was than that of `sa`.
    pub speed_up: Option<f64>,
    /// The outcome of the batch.
    #[serde(flatten)]
    pub batch: BatchOutcome,
    /// The node while it ran.
    pub samples: Vec<MeasuredSample>,
}

impl DemoOutcome {
    /// Takes the makespans' ratios.
    pub fn new(
        (software, gpu): (bool, String),
        capacity_bytes: u64,
        host: HostPhase,
        batches: Vec<(BatchOutcome, Vec<MeasuredSample>)>,
    ) -> Self {
        let base = batches
            .iter()
            .find(|(batch, _)| batch.policy == "sa")
            .map(|(batch, _)| batch.makespan.as_secs_f64());
        let row = |(batch, samples): (BatchOutcome, Vec<MeasuredSample>)| {
            let speed_up = base.map(|base| base / batch.makespan.as_secs_f64().max(1e-3));
            PolicyRow {
                speed_up: speed_up.map(|ratio| (ratio * 100.0).round() / 100.0),
                batch,
                samples,
            }
        };
        let host_phase = match host {
            HostPhase::Compute => "compute",
            HostPhase::Wait => "wait",
        };
        let policies = batches.into_iter().map(row).collect();
        Self {
            version: 1,
            software,
            gpu,
            capacity_bytes,
            host_phase,
            policies,
        }
    }

    /// Whether every policy that knows about memory, or runs one process a GPU, had every job right.
    pub fn is_right(&self) -> bool {
        let may_fail = |row: &PolicyRow| row.batch.policy.starts_with("cg:");
        self.policies
            .iter()
            .all(|row| may_fail(row) || row.batch.failed == 0)
    }
}

/// The table's columns.
pub const HEAD: [&str; 7] = [
    "policy",
    "makespan",
    "over sa",
    "mean turnaround",
    "jobs right",
    "out of memory",
    "other failures",
];

/// What a star means.
pub const INCOMPARABLE: &str = "* jobs failed, and a failed job is short: not comparable";

/// The table for people.
pub fn text(demo: &DemoOutcome) -> String {
    let mut table = Table::new(&HEAD, &HEAD[1..]);
    for row in &demo.policies {
        table.row(cells(row));
    }
    let mut text = format!("{}\n{table}", conditions(demo));
    if demo.policies.iter().any(|row| row.batch.failed > 0) {
        text.push_str(INCOMPARABLE);
        text.push('\n');
    }
    text
}

/// A policy's line of the table.
pub fn cells(PolicyRow { speed_up, batch, .. }: &PolicyRow) -> [String; 7] {
    // A batch that drops jobs is quicker for it.
    let mark = if batch.failed > 0 { "*" } else { "" };
    [
        batch.policy.clone(),
        seconds(batch.makespan),
        speed_up.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}{mark}")),
        format!("{}{mark}", seconds(batch.mean_turnaround)),
        format!("{}/{}", batch.jobs.len() - batch.failed, batch.jobs.len()),
        batch.failed_for_memory.to_string(),
        (batch.failed - batch.failed_for_memory).to_string(),
    ]
}

/// Under which conditions the figures were measured, in a line.
pub fn conditions(demo: &DemoOutcome) -> String {
    let first = demo.policies.first().map(|row| &row.batch);
    let (jobs, gpus) = first.map_or((0, 0), |batch| (batch.jobs.len(), batch.gpus));
    let mut text = format!(
        "{} on {} ({}), {} free on each; ",
        plural(jobs, "job"),
        plural(gpus, "GPU"),
        demo.gpu,
        mgb_probe::byte_size::Bytes(demo.capacity_bytes)
    );
    text.push_str(match demo.host_phase {
        "wait" => "host phases wait, as for a disk",
        _ => "host phases compute",
    });
    if demo.software {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "; device time is modelled, so this shows scheduling, not speed"
        );
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::cause::Cause;
    use crate::batch::outcome::{JobOutcome, JobState};
    use crate::parallel::Parallel;
    use std::time::Duration;

    fn batch(policy: &str, makespan: u64, failed: usize) -> BatchOutcome {
        let memory = Cause::OutOfMemory {
            log_line: "vecadd.cu:30: out of memory".to_owned(),
        };
        let job = |number: usize| JobOutcome {
            job: number,
            command: "vecadd 1000".to_owned(),
            state: if number <= failed {
                JobState::Failed
            } else {
                JobState::Done
            },
            exit_code: Some(if number <= failed { 2 } else { 0 }),
            signal: None,
            cause: (number <= failed).then(|| memory.clone()),
            gpus: vec![0],
            tasks: Vec::new(),
            evictions: crate::batch::outcome::Evictions::default(),
            moves: 0,
            share: None,
            latency: None,
            queued: Duration::ZERO,
            waited: Duration::ZERO,
            ran: Duration::from_millis(makespan / 2),
            turnaround: Duration::from_millis(makespan / 2),
            cpu: Duration::ZERO,
            host_peak_bytes: 0,
            log: None,
            again: false,
            due: None,
        };
        BatchOutcome::new(
            policy.to_owned(),
            4,
            Parallel::Count(16),
            (1..=18).map(job).collect(),
            Duration::from_millis(makespan),
        )
    }

    #[test]
    fn the_table() {
        let batches = vec![
            (batch("sa", 12_340, 0), Vec::new()),
            (batch("cg:4", 3_210, 5), Vec::new()),
            (batch("mgb", 4_560, 0), Vec::new()),
        ];
        let demo = DemoOutcome::new(
            (true, "Software GPU".to_owned()),
            254 << 20,
            HostPhase::Wait,
            batches,
        );
        assert!(demo.is_right());
        insta::assert_snapshot!(text(&demo));
    }
}
