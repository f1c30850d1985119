//! The page of a measurement: throughput and turnaround of each mix as bars, the table, and for each mix the
//! GPUs, their memory and the queue over time under each policy.

use std::path::Path;

use anyhow::{Context, Result};

use super::bars::{self, Bar};
use super::figures::Figures;
use super::results::{MixEntry, MixRun, Results};
use super::table;
use crate::batch::outcome::BatchOutcome;
use crate::markup::Element;
use crate::measure::page::scale::Scale;
use crate::measure::page::{self, HOW_TO_READ, legend, section};

/// Writes the page.
///
/// # Errors
/// When the file cannot be written.
pub fn write(results: &Results, file: &Path) -> Result<()> {
    std::fs::write(file, text(results))
        .with_context(|| format!("failed to write the page {}", file.display()))
}

const HOW_TO_READ_BARS: &str = "How many times better than one process a GPU (sa). Hollow bars are of runs in which jobs \
    failed: a failed job is short, so they are no gain. The red line is what a schedule at the bound would have.";

/// The HTML page of the results.
pub fn text(results: &Results) -> String {
    let title = "MGB: what sharing gains on this node";
    let note = |text: &str| Element::new("p").class("note").text(text);
    let heading = |text: &str| Element::new("h2").text(text);
    let picture = |what: &str, of: Of, bound: Of| {
        Element::new("div")
            .class("wide")
            .child(bars::picture(what, &groups(results, of, bound)))
    };
    let rows = results.figures.iter().map(|one| table::cells(one).to_vec());
    let incomparable = results.figures.iter().any(|one| !one.comparable());
    let body = Element::new("body")
        .child(Element::new("h1").text(title))
        .child(Element::new("p").text(table::conditions(results)))
        .child(heading("Throughput over sa"))
        .child(note(HOW_TO_READ_BARS))
        .child(picture(
            "throughput over sa",
            |one| one.throughput_over_sa,
            |one| one.bound_over_sa,
        ))
        .child(heading("Mean turnaround over sa"))
        .child(picture(
            "turnaround over sa",
            |one| one.turnaround_over_sa,
            |one| one.turnaround_bound_over_sa,
        ))
        .child(heading("All figures"))
        .child(page::table(&table::HEAD, rows))
        .child(note(table::KEY))
        .children(incomparable.then(|| note(table::INCOMPARABLE)))
        .child(heading("Where jobs ran"))
        .child(note(HOW_TO_READ))
        .child(legend())
        .children(results.mixes.iter().map(|mix| runs(results, mix)));
    page::page(title, body)
}

/// One of the ratios over `sa`.
type Of = fn(&Figures) -> Option<f64>;

fn groups(results: &Results, of: Of, bound: Of) -> Vec<(String, Vec<Bar>, Option<f64>)> {
    let group = |mix: &MixEntry| {
        let figures: Vec<&Figures> = results.figures.iter().filter(|one| one.mix == mix.name).collect();
        let bar = |one: &&Figures| {
            Some(Bar {
                policy: one.policy.clone(),
                value: of(one)?,
                comparable: one.comparable(),
            })
        };
        let line = figures.iter().find_map(|one| bound(one));
        let bars: Vec<Bar> = figures.iter().filter_map(bar).collect();
        (!bars.is_empty()).then(|| (mix.name.clone(), bars, line))
    };
    results.mixes.iter().filter_map(group).collect()
}

/// The first run of a mix under each policy, on one time axis.
fn runs(results: &Results, mix: &MixEntry) -> Element {
    let runs: Vec<&MixRun> = results
        .runs
        .iter()
        .filter(|run| run.mix == mix.name && run.run == 1)
        .collect();
    let longest = runs.iter().map(|run| run.batch.makespan).max();
    let scale = Scale::new(longest.unwrap_or_default());
    let capacity = results.facts.settings.capacity_bytes;
    let chart = |run: &&MixRun| {
        let batch = BatchOutcome {
            policy: run.arm.to_string(),
            ..run.batch.clone()
        };
        section(&batch, &run.samples, capacity, &scale)
    };
    let title = format!("{}: {}", mix.name, mix.about);
    Element::new("details")
        .with("data-mix", &mix.name)
        .child(Element::new("summary").text(title))
        .children(runs.iter().map(chart))
}

#[cfg(test)]
mod tests {
    use roxmltree::{Document, ParsingOptions};

    use super::super::compare;
    use super::super::results::tests::{results, run};
    use super::*;

    fn parsed(text: &str) -> Document<'_> {
        let options = ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        Document::parse_with_options(text, options).expect("the page is well formed")
    }

    fn page() -> String {
        let mut results = results();
        results.runs.push(run("W", "cg:2", 1, &[2.0, 3.0], 1));
        results.figures = compare::of(&results);
        text(&results)
    }

    #[test]
    fn a_bar_a_policy_twice_and_a_chart_a_run() {
        let text = page();
        let page = parsed(&text);
        let of_class = |class: &'static str| {
            page.descendants()
                .filter(move |node| node.attribute("class") == Some(class))
                .count()
        };
        // Throughput and turnaround, of sa and mgb; that of cg:2 is hollow.
        assert_eq!((of_class("ratio"), of_class("ratio hollow")), (4, 2));
        assert_eq!(of_class("wide chart"), 3);
        assert_eq!(of_class("lane"), 3 * 2);
        assert_eq!(of_class("memory"), 3 * 2);
        let widths: Vec<f64> = page
            .descendants()
            .filter(|node| node.attribute("data-policy") == Some("mgb"))
            .filter_map(|node| {
                node.children()
                    .find(|child| child.has_tag_name("rect"))?
                    .attribute("width")?
                    .parse()
                    .ok()
            })
            .collect();
        // Twice the throughput; the turnaround has 4.75 to 3.15.
        assert!(widths.len() == 2 && widths[0] > 0.0, "{widths:?}");
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let text = page();
        for word in ["http", "src=", "href=", "url(", "<script"] {
            assert!(!text.contains(word), "the page says {word}");
        }
    }
}
