//! What was sampled, as lines over time: memory and queue.

use mgb_probe::byte_size::Bytes;

use super::scale::{LEFT, PLOT, Scale, place};
use crate::markup::Element;
use crate::measure::sampler::MeasuredSample;

/// The height of the memory.
pub const MEMORY: f64 = 40.0;
/// The height of the queue.
pub const QUEUE: f64 = 48.0;

/// The memory in use on a GPU under the line of what it has; dashed, what is reserved.
pub fn memory(gpu: usize, samples: &[MeasuredSample], capacity: u64, y: f64, scale: &Scale) -> Element {
    let of = |bytes: &[u64]| bytes.get(gpu).copied().unwrap_or(0);
    let peak = samples.iter().map(|sample| of(&sample.used_bytes)).max();
    // A driver may give more than it says is free at first; then the line is no longer the top.
    let full = capacity.max(peak.unwrap_or(0)).max(1) as f64;
    let level = |bytes: u64| y + MEMORY - bytes as f64 / full * MEMORY;
    let line = |of_sample: &dyn Fn(&MeasuredSample) -> u64| {
        steps(
            samples
                .iter()
                .map(|sample| (scale.x(sample.at), level(of_sample(sample)))),
        )
    };
    let used = line(&|sample| of(&sample.used_bytes));
    let reserved = line(&|sample| of(&sample.reserved_bytes));
    let any_reserved = samples.iter().any(|sample| of(&sample.reserved_bytes) > 0);
    let hover = format!(
        "GPU {gpu}: at most {} of {} in use",
        Bytes(peak.unwrap_or(0)),
        Bytes(capacity)
    );
    let top = level(capacity);
    Element::new("g")
        .class("memory")
        .with("data-gpu", gpu)
        .child(Element::new("title").text(hover))
        .child(back(y, MEMORY))
        .children(area(samples, &used, y + MEMORY, scale).map(|path| path.class("used")))
        .children(any_reserved.then(|| Element::new("path").with("d", &reserved).class("reserved")))
        .child(
            Element::new("line")
                .class("capacity")
                .with("x1", LEFT)
                .with("x2", LEFT + PLOT)
                .with("y1", place(top))
                .with("y2", place(top)),
        )
}

/// How many jobs wait.
pub fn queue(samples: &[MeasuredSample], most: usize, y: f64, scale: &Scale) -> Element {
    let level = |length: usize| y + QUEUE - length as f64 / most.max(1) as f64 * (QUEUE - 4.0);
    let line = steps(
        samples
            .iter()
            .map(|sample| (scale.x(sample.at), level(sample.queue))),
    );
    Element::new("g")
        .class("queue")
        .child(Element::new("title").text(format!("at most {most} jobs wait at once")))
        .child(back(y, QUEUE))
        .children(area(samples, &line, y + QUEUE, scale).map(|path| path.class("waiting")))
}

/// What a curve is drawn on.
fn back(y: f64, height: f64) -> Element {
    Element::new("rect")
        .class("back")
        .with("x", LEFT)
        .with("y", y)
        .with("width", PLOT)
        .with("height", height)
}

/// What lies between a line of steps and the floor.
fn area(samples: &[MeasuredSample], line: &str, floor: f64, scale: &Scale) -> Option<Element> {
    let (first, last) = (samples.first()?, samples.last()?);
    let (right, left) = (place(scale.x(last.at)), place(scale.x(first.at)));
    let path = format!("{line} L{right} {floor} L{left} {floor} Z");
    Some(Element::new("path").with("d", path))
}

/// A line that holds each value until the next was seen.
fn steps(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    let mut last = None;
    for (x, y) in points {
        let (x, y) = (place(x), place(y));
        path += &match &last {
            None => format!("M{x} {y}"),
            // Straight on: nothing to say yet.
            Some(last) if *last == y => format!(" H{x}"),
            Some(_) => format!(" H{x} V{y}"),
        };
        last = Some(y);
    }
    path
}
