//! One batch's chart: a lane per GPU, with what `curves` draws below.

use mgb_command::table::plural;
use mgb_probe::byte_size::Bytes;

use super::curves::{self, MEMORY, QUEUE};
use super::scale::{LEFT, PLOT, Scale, place};
use super::state::state;
use crate::batch::outcome::{BatchOutcome, EvictedSpan, JobOutcome, JobState, Stretch};
use crate::markup::Element;
use crate::measure::sampler::MeasuredSample;

/// The margin at the right.
const RIGHT: f64 = 16.0;
/// The height of a bar in pixels.
const BAR: f64 = 18.0;
const GAP: f64 = 6.0;
const AXIS: f64 = 22.0;
/// About what a character of a bar's label takes.
const CHARACTER: f64 = 6.4;

/// A bar, before it has a place.
struct Bar<'a> {
    job: &'a JobOutcome,
    task: &'a Stretch,
}

/// The chart of a batch.
pub fn chart(batch: &BatchOutcome, samples: &[MeasuredSample], capacity: u64, scale: &Scale) -> Element {
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
        parts.push(curves::memory(gpu, samples, capacity, y, scale));
        y += MEMORY + 2.0 * GAP;
    }
    let most = samples.iter().map(|sample| sample.queue).max().unwrap_or(0);
    parts.push(name(&format!("{most} waiting"), y + 12.0).class("small"));
    parts.push(curves::queue(samples, most, y, scale));
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
    let failed = job.state != JobState::Done;
    let example = job.command.split(' ').next().unwrap_or_default();
    let number = job.job.to_string();
    let long = format!("{number} {example}");
    let fits = |label: &&String| label.len() as f64 * CHARACTER < width - 4.0;
    let label = [&long, &number].into_iter().find(fits);
    let hover = format!(
        "job {number}: {}\n{} on GPU {}, {:.2} s to {:.2} s{}{}\n{}",
        job.command,
        task.task,
        task.gpu,
        task.from.as_secs_f64(),
        task.to.as_secs_f64(),
        task.peak_bytes
            .map(|bytes| format!(", at most {}", Bytes(bytes)))
            .unwrap_or_default(),
        evictions(task),
        state(job)
    );
    let away = task.away.iter().map(|away| gap(away, number.as_str(), y, scale));
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
        .children(away)
        .children(text)
}

/// How often memory of the task was in the host, for its bar.
fn evictions(task: &Stretch) -> String {
    match task.away.len() {
        0 => String::new(),
        times => format!(
            "\nevicted {}, for {:.2} s in all",
            plural(times, "time"),
            task.away
                .iter()
                .map(|away| away.to.saturating_sub(away.from).as_secs_f64())
                .sum::<f64>()
        ),
    }
}

/// A gap in a bar: the task goes on, and its memory is in the host. It is hollow and dashed, so it can be
/// told without colours.
fn gap(away: &EvictedSpan, number: &str, y: f64, scale: &Scale) -> Element {
    let (from, to) = (scale.x(away.from), scale.x(away.to));
    let hover = format!(
        "job {number}: {} evicted to the host, from {:.2} s until they were back at {:.2} s",
        Bytes(away.bytes),
        away.from.as_secs_f64(),
        away.to.as_secs_f64()
    );
    Element::new("g")
        .class("away")
        .child(Element::new("title").text(hover))
        .child(
            Element::new("rect")
                .with("x", place(from))
                .with("y", y + 4.0)
                .with("width", place((to - from).max(1.5)))
                .with("height", BAR - 8.0),
        )
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
