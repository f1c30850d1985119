//! The demo's page: for each policy a lane per GPU with a bar per task, the memory in use under its capacity,
//! and the queue, all on one time axis.

use std::path::Path;

use anyhow::{Context, Result};

use super::table::{self, DemoOutcome};
use crate::markup::Element;
use crate::measure::page::scale::Scale;
use crate::measure::page::{self, HOW_TO_READ, legend, section};

/// Writes the page, whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn write(demo: &DemoOutcome, file: &Path) -> Result<()> {
    std::fs::write(file, text(demo)).with_context(|| format!("failed to write the page {}", file.display()))
}

/// The HTML page of the demo.
pub fn text(demo: &DemoOutcome) -> String {
    let longest = demo.policies.iter().map(|row| row.batch.makespan).max();
    let scale = Scale::new(longest.unwrap_or_default());
    let title = "MGB: the same jobs under each policy";
    let sections = demo
        .policies
        .iter()
        .map(|row| section(&row.batch, &row.samples, demo.capacity_bytes, &scale));
    let body = Element::new("body")
        .child(Element::new("h1").text(title))
        .child(Element::new("p").text(table::conditions(demo)))
        .child(summary(demo))
        .child(Element::new("p").class("note").text(HOW_TO_READ))
        .child(legend())
        .children(sections);
    page::page(title, body)
}

fn summary(demo: &DemoOutcome) -> Element {
    let rows = demo.policies.iter().map(|row| table::cells(row).to_vec());
    let note = demo.policies.iter().any(|row| row.batch.failed > 0);
    Element::new("div")
        .child(page::table(&table::HEAD, rows))
        .children(note.then(|| Element::new("p").class("note").text(table::INCOMPARABLE)))
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
