//! The table on the terminal, and on the page.

use std::fmt::Write;

use mgb_command::table::{Table, plural};

use super::figures::{Figures, geometric_means};
use super::results::Results;

/// The heads of the columns.
pub const HEAD: [&str; 10] = [
    "mix",
    "policy",
    "at once",
    "makespan",
    "throughput",
    "turnaround",
    "failed",
    "bound",
    "efficiency",
    "kernels",
];

/// What the columns mean.
pub const KEY: &str = "throughput, turnaround: times better than sa, of what a schedule at the bound would have; failed: of \
    all jobs (of these for lack of GPU memory); bound: no schedule is shorter; efficiency: bound / makespan; kernels: \
    their time over that of the job alone";

/// What a star means.
pub const INCOMPARABLE: &str = "* jobs failed, and a failed job is short: not comparable";

/// A line of it.
pub fn cells(one: &Figures) -> [String; 10] {
    let mark = if one.comparable() { "" } else { "*" };
    let ratio = |value: Option<f64>, bound: Option<f64>| {
        let of = bound.map_or_else(String::new, |bound| format!(" of {bound:.2}"));
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}{mark}{of}"))
    };
    let failed = match one.failed {
        0 => format!("0/{}", one.jobs),
        failed => format!("{failed}/{} ({})", one.jobs, one.failed_for_memory),
    };
    [
        one.mix.clone(),
        one.policy.clone(),
        one.at_once.to_string(),
        format!("{:.2} s", one.makespan_s),
        ratio(one.throughput_over_sa, one.bound_over_sa),
        ratio(one.turnaround_over_sa, one.turnaround_bound_over_sa),
        failed,
        format!("{:.2} s ({})", one.bound_s, one.bound_by),
        format!("{:.0} %{mark}", 100.0 * one.efficiency),
        one.kernel_slowdown
            .map_or_else(|| "-".to_owned(), |value| format!("{value:.2}")),
    ]
}

/// Under which conditions the figures were measured.
pub fn conditions(results: &Results) -> String {
    let facts = &results.facts;
    let mut text = format!(
        "{}; sizes are parts of {} a GPU{}; seed {}, commit {}",
        facts.machine.describe(),
        mgb_probe::byte_size::Bytes(facts.settings.capacity_bytes),
        if facts.settings.ballast {
            ", a ballast holds the rest"
        } else {
            ""
        },
        facts.settings.seed,
        facts.commit
    );
    if facts.machine.software {
        text.push_str("; device time is modelled, so this shows function, not speed");
    }
    text
}

/// The table for people.
pub fn text(results: &Results) -> String {
    let mut table = Table::new(&HEAD, &HEAD[2..]);
    for one in &results.figures {
        table.row(cells(one));
    }
    let mut text = format!("{}\n\n{table}{KEY}\n", conditions(results));
    if results.figures.iter().any(|one| !one.comparable()) {
        let _ = writeln!(text, "{INCOMPARABLE}");
    }
    let mixes: Vec<&str> = results.mixes.iter().map(|mix| mix.name.as_str()).collect();
    if mixes.len() > 1 {
        for (policy, throughput, turnaround) in geometric_means(&results.figures, &mixes) {
            let _ = writeln!(
                text,
                "geometric mean over {}, {policy}: throughput {throughput:.2}, turnaround {turnaround:.2}",
                plural(mixes.len(), "mix").replace("mixs", "mixes")
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::compare;
    use super::super::results::tests::{results, run};
    use super::*;

    #[test]
    fn the_table() {
        let mut results = results();
        results.runs.push(run("W", "cg:2", 1, &[2.0, 3.0], 1));
        results.figures = compare::of(&results);
        insta::assert_snapshot!(text(&results));
    }
}
