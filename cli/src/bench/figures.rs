//! The figures of a mix under a policy, and their means over mixes.

use serde::{Deserialize, Serialize};

/// A mix under a policy: means over its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The name of the mix.
    pub mix: String,
    /// The policy, with queue discipline, jobs at once and MPS, in words.
    pub policy: String,
    /// How many runs these are means of.
    pub runs: usize,
    /// From the start to the end of the last job.
    pub makespan_s: f64,
    /// The shortest and the longest of the runs.
    pub makespans_s: (f64, f64),
    /// From the start, when all are queued, to a job's end: mean over jobs.
    pub turnaround_s: f64,
    /// How many times shorter the makespan is than under `sa`.
    pub throughput_over_sa: Option<f64>,
    /// How many times shorter the mean turnaround is than under `sa`.
    pub turnaround_over_sa: Option<f64>,
    /// Jobs of all runs,
    pub jobs: usize,
    /// of which so many failed or had another result than alone,
    pub failed: usize,
    /// and of these so many for lack of GPU memory: by their logs, or because the jobs on their GPU take more
    /// alone than it has.
    pub failed_for_memory: usize,
    /// The lower bound on the makespan,
    pub bound_s: f64,
    /// what makes it,
    pub bound_by: String,
    /// and the bound over the makespan.
    pub efficiency: f64,
    /// The throughput over `sa` that a schedule as short as the bound would have.
    pub bound_over_sa: Option<f64>,
    /// The turnaround over `sa` that a schedule at the bound on that would have.
    #[serde(default)]
    pub turnaround_bound_over_sa: Option<f64>,
    /// Seconds in kernels over those of the same job alone: mean over the jobs that were right. What a job
    /// waits for in mgbd's queue within its first copy is apart; what its kernels wait for on the GPU is not.
    pub kernel_slowdown: Option<f64>,
    /// The most jobs that ran at once.
    pub at_once: usize,
}

impl Figures {
    /// Whether ratios can be compared: a job that failed is short.
    pub fn comparable(&self) -> bool {
        self.failed == 0
    }
}

/// The mean; none of no values.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Geometric means over mixes of throughput and turnaround over `sa`, a line a policy that has figures on all
/// of them without a failure.
pub fn geometric_means(figures: &[Figures], mixes: &[&str]) -> Vec<(String, f64, f64)> {
    let mut policies: Vec<&str> = Vec::new();
    for one in figures {
        if !policies.contains(&one.policy.as_str()) {
            policies.push(&one.policy);
        }
    }
    let of_policy = |policy: &&str| {
        let find = |mix: &&str| {
            let same = |one: &&Figures| one.mix == *mix && one.policy == *policy && one.comparable();
            let found = figures.iter().find(same)?;
            Some((found.throughput_over_sa?, found.turnaround_over_sa?))
        };
        let all: Vec<(f64, f64)> = mixes.iter().map(find).collect::<Option<_>>()?;
        let geometric = |of: fn(&(f64, f64)) -> f64| mean(all.iter().map(|one| of(one).ln())).map(f64::exp);
        Some((
            (*policy).to_owned(),
            geometric(|one| one.0)?,
            geometric(|one| one.1)?,
        ))
    };
    policies.iter().filter_map(of_policy).collect()
}

/// To three decimals: more than a batch's clock is good for.
pub fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
