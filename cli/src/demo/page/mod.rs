//! The demo's page: for each policy a lane per GPU with a bar per task, the memory in use under its capacity, and the
//! queue, all on one time axis. One file, without anything from elsewhere: it can be kept, sent and opened anywhere.

mod chart;
mod curves;

use std::path::Path;

use anyhow::{Context, Result};

use super::table::{self, DemoOutcome, Row};
use crate::batch::outcome::{JobOutcome, State};
use crate::element::Element;
use crate::table::seconds;
use chart::Scale;

/// Writes the page, whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn write(demo: &DemoOutcome, file: &Path) -> Result<()> {
    std::fs::write(file, text(demo)).with_context(|| format!("failed to write the page {}", file.display()))
}

/// The page.
pub fn text(demo: &DemoOutcome) -> String {
    let longest = demo.policies.iter().map(|row| row.batch.makespan).max();
    let scale = Scale::new(longest.unwrap_or_default());
    let title = "MGB: the same jobs under each policy";
    let head = Element::new("head")
        .child(Element::new("meta").with("charset", "utf-8"))
        .child(
            Element::new("meta")
                .with("name", "viewport")
                .with("content", "width=device-width, initial-scale=1"),
        )
        .child(Element::new("title").text(title))
        .child(Element::new("style").text(include_str!("style.css")));
    let body = Element::new("body")
        .child(Element::new("h1").text(title))
        .child(Element::new("p").text(table::conditions(demo)))
        .child(summary(demo))
        .child(Element::new("p").class("note").text(HOW_TO_READ))
        .child(legend())
        .children(
            demo.policies
                .iter()
                .map(|row| section(row, demo.capacity_bytes, &scale)),
        );
    let page = Element::new("html").with("lang", "en").child(head).child(body);
    format!("<!DOCTYPE html>\n{page}")
}

const HOW_TO_READ: &str = "A bar is a task, from the moment it was given its GPU to its end, with its job's number; \
    under a policy that places whole processes it is the process. Bars that lie above each other share the GPU. A red \
    bar is a job that failed. Below the bars: the memory in use as the driver says, under the line of what the GPU has; \
    dashed, what tasks have reserved. At the bottom: how many jobs wait. The time axis is the same for all. Hover over \
    a bar for details.";

/// What is drawn how: the names of classes of `style.css`, and words.
const LEGEND: [(&str, &str); 6] = [
    ("task", "a task, in its program's colour"),
    ("bad", "a task of a job that failed"),
    ("use", "memory in use"),
    ("held", "memory reserved"),
    ("limit", "memory of the GPU"),
    ("wait", "jobs that wait"),
];

fn legend() -> Element {
    let entries = LEGEND.map(|(class, words)| {
        Element::new("span")
            .child(Element::new("i").class(format!("key {class}")))
            .text(words)
    });
    Element::new("p").class("legend").children(entries)
}

fn summary(demo: &DemoOutcome) -> Element {
    let heads = table::HEAD.iter().map(|head| Element::new("th").text(head));
    let rows = demo.policies.iter().map(|row| {
        let cells = table::cells(row)
            .into_iter()
            .map(|cell| Element::new("td").text(cell));
        Element::new("tr").children(cells)
    });
    let note = demo.policies.iter().any(|row| row.batch.failed > 0);
    let table = Element::new("table")
        .child(Element::new("tr").children(heads))
        .children(rows);
    Element::new("div")
        .child(Element::new("div").class("wide").child(table))
        .children(note.then(|| Element::new("p").class("note").text(table::INCOMPARABLE)))
}

fn section(row: &Row, capacity: u64, scale: &Scale) -> Element {
    let batch = &row.batch;
    let right = batch.jobs.len() - batch.failed;
    let title = format!(
        "{}: {}, {right} of {} jobs right",
        batch.policy,
        seconds(batch.makespan),
        batch.jobs.len()
    );
    Element::new("section")
        .child(Element::new("h2").text(title))
        .child(
            Element::new("div")
                .class("wide chart")
                .child(chart::chart(row, capacity, scale)),
        )
        .child(
            Element::new("details")
                .child(Element::new("summary").text("the jobs"))
                .child(Element::new("div").class("wide").child(jobs(&batch.jobs))),
        )
}

/// Everything about the jobs in words, for those who cannot hover.
fn jobs(jobs: &[JobOutcome]) -> Element {
    let heads = ["job", "command", "state", "GPU", "queued", "waited", "ran"];
    let row = |job: &JobOutcome| {
        let gpus: Vec<String> = job.gpus.iter().map(u32::to_string).collect();
        let cells = [
            job.job.to_string(),
            job.command.clone(),
            state(job),
            gpus.join(" "),
            seconds(job.queued),
            seconds(job.waited),
            seconds(job.ran),
        ];
        Element::new("tr").children(cells.into_iter().map(|cell| Element::new("td").text(cell)))
    };
    Element::new("table")
        .class("jobs")
        .child(Element::new("tr").children(heads.map(|head| Element::new("th").text(head))))
        .children(jobs.iter().map(row))
}

/// How a job ended, in words.
fn state(job: &JobOutcome) -> String {
    match (job.state, &job.cause) {
        (State::Done, _) => "right".to_owned(),
        (_, Some(cause)) => cause.short(),
        (State::Failed, None) => "failed".to_owned(),
        (State::Stopped | State::NotStarted, None) => "stopped".to_owned(),
    }
}

#[cfg(test)]
mod tests;
