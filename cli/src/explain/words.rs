//! What a report says, in words: the same in the text and in both drawings.

use std::fmt::Write;

use mgb_catalogue::report::{
    KernelParts, KernelReport, ObjectReport, OpReport, Reason, Report, SourceLocation, TaskKind, TaskReport,
};
use mgb_command::table::plural;

/// The file, and how many of its tasks are of which kind.
pub fn module(report: &Report) -> String {
    let lazy = report
        .tasks
        .iter()
        .filter(|task| task.kind == TaskKind::Lazy)
        .count();
    let fixed = report.tasks.len() - lazy;
    let tasks = plural(report.tasks.len(), "task");
    format!("{}: {tasks} ({fixed} static, {lazy} lazy)", report.source)
}

/// Why the process is open.
pub fn whole_module(reason: &Reason) -> String {
    format!(
        "the process is open, and each of its devices stays on one GPU: {}",
        because(reason)
    )
}

/// How a kernel can be run in parts.
pub fn parts(kernel: &KernelReport) -> &'static str {
    match kernel.parts {
        KernelParts::Twin => "in parts: its twin stops between two blocks",
        KernelParts::Slices => {
            "in slices: its launch stops between two blocks, and the rest is launched again"
        }
        KernelParts::Whole => "as a whole only",
    }
}

/// When a task is bound.
pub fn kind(task: &TaskReport) -> &'static str {
    match task.kind {
        TaskKind::Static => "static: bound by its probe before it starts",
        TaskKind::Lazy => "lazy: bound at run time",
    }
}

/// What a task is whose every call was inlined.
pub const FOR_OTHERS: &str = "for callers in other files: in this one every call was inlined";

/// What follows a task's name, each with the word it comes under; lines without one belong to the line
/// before.
pub fn facts(task: &TaskReport) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    for reason in &task.reasons {
        facts.push(("why", because(reason)));
    }
    if let Some(need) = &task.need {
        facts.push((
            "need",
            format!("peak    {} bytes{}", need.peak, readable(&need.peak)),
        ));
        let mut launch = format!("grid {}, block {}, shared {}", need.grid, need.block, need.shared);
        if let Some(registers) = need.registers {
            launch += &format!(", {registers} registers a thread");
        }
        facts.push(("", format!("launch  {launch}")));
    }
    facts
}

/// A number of bytes in larger units, behind it; nothing for small ones, and for formulas.
fn readable(bytes: &str) -> String {
    const UNITS: [(u32, &str); 3] = [(40, "TiB"), (30, "GiB"), (20, "MiB")];
    let number: u64 = bytes.parse().unwrap_or(0);
    let unit = UNITS.iter().find(|(shift, _)| number >> shift > 0);
    unit.map_or_else(String::new, |(shift, name)| {
        format!(" ({:.1} {name})", number as f64 / (1u64 << shift) as f64)
    })
}

/// Where a task begins and ends, and whether it may move: what a report has last.
pub fn bounds(task: &TaskReport) -> Vec<(&'static str, String)> {
    let mut bounds = Vec::new();
    if let Some(begin) = &task.begin {
        bounds.push(("begin", line(begin)));
    }
    if !task.ends.is_empty() {
        let mut ends: Vec<String> = task.ends.iter().map(line).collect();
        // Several edges may leave at one closing brace.
        ends.dedup();
        bounds.push(("end", ends.join(", ")));
    }
    match &task.movable {
        Some(movable) if movable.movable => {
            bounds.push(("movable", "nothing of the GPU is in its data".to_owned()));
        }
        Some(movable) => {
            let anchored = |reason| ("anchored", because(reason));
            bounds.extend(movable.reasons.iter().map(anchored));
        }
        None => {}
    }
    if let Some(deadline) = &task.deadline {
        bounds.push(("deadline", format!("{deadline} ms after its begin")));
    }
    for reason in &task.alone {
        bounds.push(("alone", because(reason)));
        if task.kind == TaskKind::Lazy {
            bounds.push(("", "a lazy task shares its GPU all the same".to_owned()));
        }
    }
    bounds
}

/// An op without the objects it touches.
pub fn operation(op: &OpReport) -> String {
    match &op.kernel {
        Some(kernel) => format!("{} {kernel}", op.op),
        None => op.op.clone(),
    }
}

/// An object's name and size, without its number.
pub fn object(object: &ObjectReport) -> String {
    let name = if object.name.is_empty() {
        "(unnamed)"
    } else {
        &object.name
    };
    let mut shown = format!("{name}: {} bytes", object.bytes);
    if object.variable {
        let _ = write!(shown, ", a device variable");
    }
    shown
}

/// A reason's sentence, its name and its line.
pub fn because(reason: &Reason) -> String {
    match &reason.at {
        Some(place) if place.line > 0 => format!("{} ({}, {})", reason.text, reason.code, line(place)),
        _ => format!("{} ({})", reason.text, reason.code),
    }
}

/// A place; without its file where that is the module's source.
pub fn line(place: &SourceLocation) -> String {
    match (&place.file, place.line) {
        (_, 0) => "line ?".to_owned(),
        (Some(file), line) => format!("{file}:{line}"),
        (None, line) => format!("line {line}"),
    }
}
