//! What follows from runs: how much better than one process per GPU, how close to the bound, how many
//! failures.

use super::figures::{Figures, mean, rounded};
use super::results::{MixRun, Results};
use crate::batch::outcome::JobState;

/// Kernel time alone below which a ratio says nothing, in seconds.
const SHORTEST: f64 = 1e-3;

/// Of all runs, a line a mix and policy, in the order in which they were run.
pub fn of(results: &Results) -> Vec<Figures> {
    let mut groups: Vec<Vec<&MixRun>> = Vec::new();
    for run in &results.runs {
        let same = |group: &&mut Vec<&MixRun>| group[0].mix == run.mix && group[0].arm == run.arm;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups.iter().map(|group| figures(results, group)).collect()
}

fn makespan(run: &MixRun) -> f64 {
    run.batch.makespan.as_secs_f64()
}

fn turnaround(run: &MixRun) -> f64 {
    run.batch.mean_turnaround.as_secs_f64()
}

fn figures(results: &Results, group: &[&MixRun]) -> Figures {
    let first = group[0];
    let sa = base(results, first);
    let mean = |runs: &[&MixRun], of: fn(&MixRun) -> f64| mean(runs.iter().map(|run| of(run))).unwrap_or(0.0);
    let over_sa =
        |of: fn(&MixRun) -> f64| (!sa.is_empty()).then(|| rounded(mean(&sa, of) / mean(group, of).max(1e-3)));
    let bound_over_sa = |of: fn(&MixRun) -> f64, bound: f64| {
        (!sa.is_empty() && bound > 0.0).then(|| rounded(mean(&sa, of) / bound))
    };
    let bound = results.mixes.iter().find(|mix| mix.name == first.mix);
    let bound = bound.map(|mix| mix.bound).unwrap_or_default();
    let makespan_s = mean(group, makespan);
    let makespans = || group.iter().map(|run| rounded(makespan(run)));
    let slowdowns = group.iter().flat_map(|run| slowdowns(results, run));
    let mean_slowdown = super::figures::mean(slowdowns);
    Figures {
        mix: first.mix.clone(),
        policy: first.arm.to_string(),
        runs: group.len(),
        makespan_s: rounded(makespan_s),
        makespans_s: (
            makespans().fold(f64::INFINITY, f64::min),
            makespans().fold(0.0, f64::max),
        ),
        turnaround_s: rounded(mean(group, turnaround)),
        throughput_over_sa: over_sa(makespan),
        turnaround_over_sa: over_sa(turnaround),
        jobs: group.iter().map(|run| run.batch.jobs.len()).sum(),
        failed: group.iter().map(|run| run.failed()).sum(),
        failed_for_memory: group.iter().map(|run| run.batch.failed_for_memory).sum(),
        bound_s: rounded(bound.seconds()),
        bound_by: bound.busiest().to_owned(),
        efficiency: rounded(bound.seconds() / makespan_s.max(1e-3)),
        bound_over_sa: bound_over_sa(makespan, bound.seconds()),
        turnaround_bound_over_sa: bound_over_sa(turnaround, bound.turnaround_s),
        kernel_slowdown: mean_slowdown.map(rounded),
        at_once: group.iter().map(|run| run.batch.parallel).max().unwrap_or(0),
    }
}

/// The runs of this mix one process a GPU: under the same MPS where there are such.
fn base<'a>(results: &'a Results, run: &MixRun) -> Vec<&'a MixRun> {
    let sa = |mps: Option<bool>| -> Vec<&MixRun> {
        let of_mix = results.runs.iter().filter(|one| one.mix == run.mix);
        of_mix
            .filter(|one| one.arm.policy == "sa" && mps.is_none_or(|mps| one.arm.mps == mps))
            .collect()
    };
    let same = sa(Some(run.arm.mps));
    if same.is_empty() { sa(None) } else { same }
}

fn slowdowns<'a>(results: &'a Results, run: &'a MixRun) -> impl Iterator<Item = f64> + 'a {
    let jobs = run.batch.jobs.iter().zip(&run.results);
    jobs.filter(|(job, _)| job.state == JobState::Done)
        .filter_map(|(job, result)| {
            let alone = results.alone(&job.command)?.profile?.kernels_s;
            (alone >= SHORTEST).then(|| Some(result.profile?.kernels_s / alone))?
        })
}

#[cfg(test)]
mod tests {
    use super::super::figures::geometric_means;
    use super::super::results::tests::{results, run};
    use super::*;

    #[test]
    fn ratios_bounds_failures_and_slowdowns() {
        let mut results = results();
        // Twice, one with a job that failed for memory: of four jobs one is out.
        results.runs.push(run("W", "cg:2", 1, &[2.0, 3.0], 1));
        results.runs.push(run("W", "cg:2", 2, &[2.0, 5.0], 0));
        let figures = of(&results);
        let text = serde_json::to_string_pretty(&figures).unwrap();
        insta::assert_snapshot!(text);
        let cg = figures.iter().find(|one| one.policy == "cg:2").unwrap();
        assert!(!cg.comparable());
        assert_eq!((cg.makespan_s, cg.jobs, cg.failed), (4.0, 4, 1));
    }

    #[test]
    fn without_sa_nothing_is_compared() {
        let mut results = results();
        results.runs.retain(|run| run.arm.policy != "sa");
        let figures = of(&results);
        assert_eq!(
            (figures[0].throughput_over_sa, figures[0].bound_over_sa),
            (None, None)
        );
        assert!(figures[0].efficiency > 0.0);
    }

    #[test]
    fn means_are_over_mixes_that_all_have() {
        let mut results = results();
        let mix = results.mixes[0].clone();
        results.mixes.push(super::super::results::MixEntry {
            name: "V".to_owned(),
            ..mix
        });
        results.runs.push(run("V", "sa", 1, &[4.0, 8.0], 0));
        results.runs.push(run("V", "mgb", 1, &[1.0, 2.0], 0));
        results.runs.push(run("V", "cg:2", 1, &[1.0, 2.0], 0));
        let means = geometric_means(&of(&results), &["W", "V"]);
        let rounded: Vec<(String, f64)> = means
            .into_iter()
            .map(|(policy, throughput, _)| (policy, rounded(throughput)))
            .collect();
        // Twice and four times as much.
        assert_eq!(rounded, [("sa".to_owned(), 1.0), ("mgb".to_owned(), 2.828)]);
    }
}
