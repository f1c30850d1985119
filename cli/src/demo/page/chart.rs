//! One policy's chart: lanes, memory, queue.

use std::time::Duration;

use mgb_probe::size::Bytes;

use super::element::Element;
use super::state;
use crate::batch::outcome::{JobOutcome, State, Stretch};
use crate::demo::sampler::Sample;
use crate::demo::table::Row;

/// Room for names at the left, the plot beside it, and the margin at the right, in the drawing's own units.
const LEFT: f64 = 88.0;
const PLOT: f64 = 1000.0;
const RIGHT: f64 = 16.0;
/// Heights.
const BAR: f64 = 18.0;
const MEMORY: f64 = 40.0;
const QUEUE: f64 = 48.0;
const GAP: f64 = 6.0;
const AXIS: f64 = 22.0;
/// About what a character of a bar's label takes.
const CHARACTER: f64 = 6.4;

/// Time to place, the same for every policy.
#[derive(Debug)]
pub struct Scale {
    longest: f64,
}

impl Scale {
    /// With so much time from the left to the right.
    pub fn new(longest: Duration) -> Self {
        Self {
            longest: longest.as_secs_f64().max(1e-3),
        }
    }

    fn x(&self, at: Duration) -> f64 {
        LEFT + (at.as_secs_f64() / self.longest).min(1.0) * PLOT
    }

    /// Round times, no more than ten of them.
    fn ticks(&self) -> Vec<(Duration, String)> {
        let steps = [
            0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0,
        ];
        let fits = |step: &&f64| self.longest / **step <= 10.0;
        let step = steps.iter().find(fits).copied().unwrap_or(self.longest);
        let count = (self.longest / step) as usize;
        let tick = |index: usize| {
            let at = index as f64 * step;
            let label = if step < 1.0 {
                format!("{at:.1} s")
            } else {
                format!("{at:.0} s")
            };
            (Duration::from_secs_f64(at), label)
        };
        (0..=count).map(tick).collect()
    }
}

/// A bar, before it has a place.
struct Bar<'a> {
    job: &'a JobOutcome,
    task: &'a Stretch,
}

/// The chart.
pub fn chart(row: &Row, capacity: u64, scale: &Scale) -> Element {
    let batch = &row.batch;
    let mut parts = Vec::new();
    let mut y = GAP;
    for gpu in 0..batch.gpus {
        let bars = batch.jobs.iter().flat_map(|job| {
            let here = job.tasks.iter().filter(move |task| task.gpu as usize == gpu);
            here.map(move |task| Bar { job, task })
        });
        let rows = pack(bars.collect());
        let height = rows.len().max(1) as f64 * BAR;
        parts.push(name(&format!("GPU {gpu}"), y + 13.0));
        parts.push(lane(gpu, &rows, y, height, scale));
        y += height + 2.0;
        parts.push(name(&Bytes(capacity).to_string(), y + 12.0).class("small"));
        parts.push(memory(gpu, &row.samples, capacity, y, scale));
        y += MEMORY + 2.0 * GAP;
    }
    let most = row.samples.iter().map(|sample| sample.queue).max().unwrap_or(0);
    parts.push(name(&format!("{most} waiting"), y + 12.0).class("small"));
    parts.push(queue(&row.samples, most, y, scale));
    y += QUEUE;
    let grid = grid(y, scale);
    y += AXIS;
    let width = LEFT + PLOT + RIGHT;
    Element::new("svg")
        .with("viewBox", format!("0 0 {width} {y}"))
        .with("role", "img")
        .with(
            "aria-label",
            format!("GPUs, memory and queue under {}", batch.policy),
        )
        .child(grid)
        .children(parts)
}

/// Rows in which no bar lies over another: each goes to the first row that is free by then.
fn pack(mut bars: Vec<Bar<'_>>) -> Vec<Vec<Bar<'_>>> {
    bars.sort_by_key(|bar| (bar.task.from, bar.job.job));
    let mut rows: Vec<Vec<Bar<'_>>> = Vec::new();
    for bar in bars {
        let free = |row: &&mut Vec<Bar<'_>>| row.last().is_none_or(|last| last.task.to <= bar.task.from);
        match rows.iter_mut().find(free) {
            Some(row) => row.push(bar),
            None => rows.push(vec![bar]),
        }
    }
    rows
}

fn lane(gpu: usize, rows: &[Vec<Bar<'_>>], y: f64, height: f64, scale: &Scale) -> Element {
    let back = Element::new("rect")
        .with("x", LEFT)
        .with("y", y)
        .with("width", PLOT)
        .with("height", height)
        .class("back");
    let bars = rows
        .iter()
        .enumerate()
        .flat_map(|(index, row)| row.iter().map(move |one| bar(one, y + index as f64 * BAR, scale)));
    Element::new("g")
        .class("lane")
        .with("data-gpu", gpu)
        .child(back)
        .children(bars)
}

fn bar(Bar { job, task }: &Bar<'_>, y: f64, scale: &Scale) -> Element {
    let (from, to) = (scale.x(task.from), scale.x(task.to));
    // One that is too short to be seen is still there.
    let width = (to - from).max(1.5);
    let failed = job.state != State::Done;
    let example = job.command.split(' ').next().unwrap_or_default();
    let number = job.job.to_string();
    let long = format!("{number} {example}");
    let fits = |label: &&String| label.len() as f64 * CHARACTER < width - 4.0;
    let label = [&long, &number].into_iter().find(fits);
    let hover = format!(
        "job {number}: {}\n{} on GPU {}, {:.2} s to {:.2} s{}\n{}",
        job.command,
        task.task,
        task.gpu,
        task.from.as_secs_f64(),
        task.to.as_secs_f64(),
        task.peak_bytes
            .map(|bytes| format!(", at most {}", Bytes(bytes)))
            .unwrap_or_default(),
        state(job)
    );
    let text = label.map(|label| {
        Element::new("text")
            .with("x", place(from + 4.0))
            .with("y", y + 13.0)
            .text(label)
    });
    Element::new("g")
        .class(if failed { "bar failed" } else { "bar" })
        .with("style", format!("--hue:{}", hue(example)))
        .with("data-job", &number)
        .child(Element::new("title").text(hover))
        .child(
            Element::new("rect")
                .with("x", place(from))
                .with("y", y + 1.0)
                .with("width", place(width))
                .with("height", BAR - 2.0)
                .with("rx", 2),
        )
        .children(text)
}

/// The same colour for the same program, in all charts.
fn hue(program: &str) -> u32 {
    let name = program.rsplit('/').next().unwrap_or(program);
    let sum = name
        .bytes()
        .fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    // Not the red of failed jobs.
    25 + sum % 310
}

fn memory(gpu: usize, samples: &[Sample], capacity: u64, y: f64, scale: &Scale) -> Element {
    let of = |bytes: &[u64]| bytes.get(gpu).copied().unwrap_or(0);
    let peak = samples.iter().map(|sample| of(&sample.used_bytes)).max();
    // A driver may give more than it says is free at first; then the line is no longer the top.
    let full = capacity.max(peak.unwrap_or(0)).max(1) as f64;
    let level = |bytes: u64| y + MEMORY - bytes as f64 / full * MEMORY;
    let line = |of_sample: &dyn Fn(&Sample) -> u64| {
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
        .child(
            Element::new("rect")
                .class("back")
                .with("x", LEFT)
                .with("y", y)
                .with("width", PLOT)
                .with("height", MEMORY),
        )
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

fn queue(samples: &[Sample], most: usize, y: f64, scale: &Scale) -> Element {
    let level = |length: usize| y + QUEUE - length as f64 / most.max(1) as f64 * (QUEUE - 4.0);
    let line = steps(
        samples
            .iter()
            .map(|sample| (scale.x(sample.at), level(sample.queue))),
    );
    Element::new("g")
        .class("queue")
        .child(Element::new("title").text(format!("at most {most} jobs wait at once")))
        .child(
            Element::new("rect")
                .class("back")
                .with("x", LEFT)
                .with("y", y)
                .with("width", PLOT)
                .with("height", QUEUE),
        )
        .children(area(samples, &line, y + QUEUE, scale).map(|path| path.class("waiting")))
}

/// What lies between a line of steps and the floor.
fn area(samples: &[Sample], line: &str, floor: f64, scale: &Scale) -> Option<Element> {
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

fn grid(height: f64, scale: &Scale) -> Element {
    let ticks = scale.ticks().into_iter().map(|(at, label)| {
        let x = place(scale.x(at));
        Element::new("g")
            .child(
                Element::new("line")
                    .with("x1", &x)
                    .with("x2", &x)
                    .with("y1", 0)
                    .with("y2", height),
            )
            .child(
                Element::new("text")
                    .with("x", &x)
                    .with("y", height + 15.0)
                    .text(label),
            )
    });
    Element::new("g").class("grid").children(ticks)
}

fn name(text: &str, y: f64) -> Element {
    Element::new("text")
        .with("x", LEFT - 6.0)
        .with("y", y)
        .with("text-anchor", "end")
        .text(text)
}

/// A tenth of a unit is finer than any screen.
fn place(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
