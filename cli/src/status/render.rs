//! Prints the status for people.

use std::fmt::Write;

use mgb_command::table::{plural, span};
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{Counts, NodeView};

use super::columns::Width;
use super::gpus::gpus;
use super::ordered::ordered;
use super::queue::queue;
use super::tasks::tasks;

/// The GPUs, then the tasks that hold room, then those that wait.
pub(super) fn text(view: &NodeView, width: Width) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "mgbd {}, policy {}{}, up {}, {}, {}",
        view.mgbd_pid,
        view.policy,
        evicts_by(view),
        span(view.uptime_ms),
        plural(view.clients as usize, "client"),
        mps(view)
    );
    let _ = write!(text, "\n{}", gpus(view, width));
    let _ = match view.tasks.as_slice() {
        [] => writeln!(text, "\nno tasks"),
        held => write!(text, "\n{}", tasks(held, width)),
    };
    let _ = match view.queue.as_slice() {
        [] => writeln!(text, "\nqueue empty"),
        _ => write!(text, "\n{}", queue(view, width)),
    };
    if view.cut.tasks + view.cut.queue > 0 {
        let _ = writeln!(
            text,
            "\nnot shown, for want of room: {}, {}",
            plural(view.cut.tasks as usize, "task"),
            plural(view.cut.queue as usize, "request")
        );
    }
    let ordered = ordered(view);
    if !ordered.is_empty() {
        let _ = write!(text, "\n{ordered}");
    }
    if view.starting > 0 {
        let programs = plural(view.starting as usize, "program");
        let _ = writeln!(
            text,
            "\nwaiting for the driver, which starts one after another: {programs}"
        );
    }
    text.push_str(&evictions(&view.counts));
    text
}

/// What left GPUs since mgbd's start, if anything did.
fn evictions(counts: &Counts) -> String {
    let totals = [
        ("evictions", counts.evicted, Some(counts.evicted_bytes)),
        ("moves", counts.moved, Some(counts.moved_bytes)),
        ("swaps to break a deadlock", counts.swapped_out, None),
    ];
    let said = totals.iter().filter(|(_, count, _)| *count > 0);
    let said = said.map(|(what, count, bytes)| match bytes {
        Some(bytes) => format!("{what}: {count} ({})", Bytes(*bytes)),
        None => format!("{what}: {count}"),
    });
    let said: Vec<String> = said.collect();
    match said.as_slice() {
        [] => String::new(),
        said => format!("\n{}\n", said.join(", ")),
    }
}

/// By which rule memory is evicted, where it is not the usual one.
fn evicts_by(view: &NodeView) -> String {
    match view.evicts_by.as_deref() {
        Some("pays") => String::new(),
        Some(rule) => format!(", evicts by {rule}"),
        None => ", evicts nothing".to_owned(),
    }
}

fn mps(view: &NodeView) -> String {
    match (&view.mps_pipe, &view.mps_note) {
        (Some(pipe), _) => format!("MPS at {pipe}"),
        (None, Some(why)) => format!("no MPS ({why})"),
        (None, None) => "no MPS".to_owned(),
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
