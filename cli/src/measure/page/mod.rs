//! The parts that pages are made of. A page is one file, without anything from elsewhere: it can be kept,
//! sent and opened anywhere.

mod chart;
mod curves;
pub mod scale;
mod state;

use mgb_command::table::{plural, seconds};
use mgb_probe::byte_size::Bytes;
use scale::Scale;
use state::state;

use super::sampler::MeasuredSample;
use crate::batch::outcome::{BatchOutcome, Evictions, JobOutcome};
use crate::markup::Element;
use crate::status::latency_cells;

/// How a page looks.
pub const STYLE: &str = include_str!("style.css");

/// A whole page of this title.
pub fn page(title: &str, body: Element) -> String {
    let head = Element::new("head")
        .child(Element::new("meta").with("charset", "utf-8"))
        .child(
            Element::new("meta")
                .with("name", "viewport")
                .with("content", "width=device-width, initial-scale=1"),
        )
        .child(Element::new("title").text(title))
        .child(Element::new("style").text(STYLE));
    let page = Element::new("html").with("lang", "en").child(head).child(body);
    format!("<!DOCTYPE html>\n{page}")
}

/// How a chart is read.
pub const HOW_TO_READ: &str = "A bar is a task, from the moment it was given its GPU to its end, with its job's number; \
    under a policy that places whole processes it is the process. Bars that lie above each other share the GPU. A red \
    bar is a job that failed. Where a bar is hollow, the task's memory was in the host, since it lay idle while others \
    waited for room. Below the bars: the memory in use as the driver says, under the line of what the GPU has; \
    dashed, what tasks have reserved. At the bottom: how many jobs wait. The time axis is the same for all. Hover over \
    a bar for details.";

/// What is drawn how: the names of classes of `style.css`, and words.
pub const LEGEND: [(&str, &str); 7] = [
    ("task", "a task, in its program's colour"),
    ("bad", "a task of a job that failed"),
    ("gone", "evicted: its memory is in the host"),
    ("use", "memory in use"),
    ("held", "memory reserved"),
    ("limit", "memory of the GPU"),
    ("wait", "jobs that wait"),
];

/// The chart's legend.
pub fn legend() -> Element {
    let entries = LEGEND.map(|(class, words)| {
        Element::new("span")
            .child(Element::new("i").class(format!("key {class}")))
            .text(words)
    });
    Element::new("p").class("legend").children(entries)
}

/// A table with these heads, which scrolls by itself where it is too wide.
pub fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Element {
    let row = |cells: Vec<String>| {
        let cells = cells.into_iter().map(|cell| Element::new("td").text(cell));
        Element::new("tr").children(cells)
    };
    let heads = heads.iter().map(|head| Element::new("th").text(head));
    let table = Element::new("table")
        .child(Element::new("tr").children(heads))
        .children(rows.into_iter().map(row));
    Element::new("div").class("wide").child(table)
}

/// A batch: its chart, and its jobs in words.
pub fn section(batch: &BatchOutcome, samples: &[MeasuredSample], capacity: u64, scale: &Scale) -> Element {
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
                .child(chart::chart(batch, samples, capacity, scale)),
        )
        .child(
            Element::new("details")
                .child(Element::new("summary").text("the jobs"))
                .child(Element::new("div").class("wide").child(jobs(&batch.jobs))),
        )
}

/// Everything about the jobs in words, for readers that cannot hover.
fn jobs(jobs: &[JobOutcome]) -> Element {
    let any_latency = jobs.iter().any(|job| job.latency.is_some());
    let heads = [
        "job", "command", "state", "GPU", "queued", "waited", "ran", "evicted", "copying",
    ];
    let heads = heads
        .into_iter()
        .chain(any_latency.then_some(["p50", "p99"]).into_iter().flatten());
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
            evicted(&job.evictions),
            if job.evictions.times == 0 {
                "-".to_owned()
            } else {
                seconds(job.evictions.copying)
            },
        ];
        let latency = any_latency
            .then(|| latency_cells(job.latency))
            .into_iter()
            .flatten();
        let cells = cells.into_iter().chain(latency);
        Element::new("tr").children(cells.map(|cell| Element::new("td").text(cell)))
    };
    Element::new("table")
        .class("jobs")
        .child(Element::new("tr").children(heads.map(|head| Element::new("th").text(head))))
        .children(jobs.iter().map(row))
}

/// How often memory left a job's GPUs, and how much in all.
fn evicted(evictions: &Evictions) -> String {
    match evictions.times {
        0 => "-".to_owned(),
        times => format!("{}, {}", plural(times as usize, "time"), Bytes(evictions.bytes)),
    }
}
