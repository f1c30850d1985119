//! The lines of a GPU: a bar of its memory, its load, and what is worth saying.

use mgb_probe::view::GpuView;
use ratatui::text::{Line, Span};

use super::grid::cut;
use super::palette::{Palette, Role};
use super::sizes::{percent, short};

/// From this width on lines have names of GPUs and longer charts.
const WIDE: usize = 100;

/// How lines of GPUs are drawn.
#[derive(Clone, Copy)]
pub(super) struct GpuStyle {
    pub(super) palette: Palette,
    pub(super) width: usize,
    /// A second line has the parts of its memory in numbers.
    pub(super) has_details: bool,
}

/// How long the chart of a GPU's load is.
pub(super) fn chart_width(width: usize) -> usize {
    if width >= WIDE { 24 } else { 8 }
}

/// The lines of a GPU with these last loads.
pub(super) fn gpu_lines(gpu: &GpuView, loads: &[u64], style: GpuStyle) -> Vec<Line<'static>> {
    let mut lines = vec![first(gpu, loads, style)];
    if style.has_details {
        lines.push(details(gpu, style));
    }
    lines
}

fn first(gpu: &GpuView, loads: &[u64], style: GpuStyle) -> Line<'static> {
    let palette = style.palette;
    let head = format!("{:>2} ", gpu.gpu.index);
    let name = if style.width >= WIDE {
        format!("{:<22} ", cut(&gpu.gpu.name, 22, palette))
    } else {
        String::new()
    };
    let sizes = format!(" {:>6}/{:<6}", short(committed(gpu)), short(gpu.gpu.usable_bytes));
    let load = gpu
        .load
        .map_or_else(|| "   -".to_owned(), |load| format!("{:>4}", percent(load)));
    let chart: String = loads.iter().map(|load| palette.level(*load)).collect();
    let chart = format!(" {chart:>width$}", width = chart_width(style.width));
    let fixed = head.len() + name.chars().count() + sizes.len() + 1 + load.len() + chart.chars().count();
    let bar = style.width.saturating_sub(fixed + 2).max(4);
    let mut spans = vec![Span::styled(head, palette.style(Role::Head))];
    spans.push(Span::raw(name));
    spans.push(Span::raw("["));
    spans.extend(bar_spans(gpu, bar, palette));
    spans.push(Span::raw("]"));
    spans.push(Span::raw(sizes));
    spans.push(Span::raw(" "));
    spans.push(Span::raw(load));
    spans.push(Span::styled(chart, palette.style(Role::Reserved)));
    Line::from(spans)
}

/// What tasks can count on: reservations, what is kept for them, and contexts.
fn committed(gpu: &GpuView) -> u64 {
    let parts = [gpu.reserved_bytes, gpu.headroom_bytes, gpu.contexts_bytes];
    parts.into_iter().fold(0, u64::saturating_add)
}

/// The parts of its memory, so that all columns together are the whole.
fn bar_spans(gpu: &GpuView, columns: usize, palette: Palette) -> Vec<Span<'static>> {
    let resident = gpu.resident_bytes.min(gpu.reserved_bytes);
    let parts = [
        (Role::Resident, resident),
        (Role::Reserved, gpu.reserved_bytes - resident),
        (Role::Headroom, gpu.headroom_bytes),
        (
            Role::Overhead,
            gpu.contexts_bytes.saturating_add(gpu.overhead_bytes),
        ),
        (
            Role::Foreign,
            gpu.foreign_bytes.saturating_add(gpu.reclaiming_bytes),
        ),
    ];
    let whole = u128::from(gpu.gpu.total_bytes.max(gpu.gpu.usable_bytes).max(1));
    let mut spans = Vec::new();
    let (mut bytes, mut drawn) = (0u128, 0usize);
    for (role, part) in parts {
        bytes += u128::from(part);
        // Edges are rounded, not lengths, so that errors do not add up; what is not nothing shows while there is room.
        let edge = (bytes.min(whole) * columns as u128 + whole / 2) / whole;
        let edge = (edge as usize).max(drawn + usize::from(part > 0)).min(columns);
        let text: String = std::iter::repeat_n(palette.fill(role), edge - drawn).collect();
        spans.push(Span::styled(text, palette.style(role)));
        drawn = edge;
    }
    let free: String = std::iter::repeat_n(palette.fill(Role::Dim), columns - drawn).collect();
    spans.push(Span::styled(free, palette.style(Role::Dim)));
    spans
}

/// The parts of the memory in numbers, and the state of the GPU where it is not as it should be, first.
fn details(gpu: &GpuView, style: GpuStyle) -> Line<'static> {
    let palette = style.palette;
    let mut state = Vec::new();
    if gpu.lost {
        state.push("LOST".to_owned());
    }
    if let Some(why) = &gpu.fails {
        state.push(format!("FAILS: {why}"));
    }
    if gpu.drained {
        state.push("drained".to_owned());
    }
    let sizes = [
        ("committed", committed(gpu), true),
        ("resident", gpu.resident_bytes, true),
        ("evicted", gpu.evicted_bytes, true),
        ("overhead", gpu.overhead_bytes, false),
        ("foreign", gpu.foreign_bytes, false),
        ("reclaiming", gpu.reclaiming_bytes, false),
    ];
    let said = sizes.iter().filter(|(_, bytes, always)| *always || *bytes > 0);
    let mut said: Vec<String> = said
        .map(|(word, bytes, _)| format!("{word} {}", short(*bytes)))
        .collect();
    if style.width >= WIDE {
        said.push(format!("processes {}", gpu.processes));
        said.push(format!("in flight {}", gpu.launches_in_flight));
    }
    let state = state.join(", ");
    let gap = if state.is_empty() { "" } else { "  " };
    let text = format!("{gap}{}", said.join("  "));
    let state = cut(&state, style.width.saturating_sub(3), palette);
    let room = style.width.saturating_sub(3 + Line::raw(state.as_str()).width());
    Line::from(vec![
        Span::raw("   "),
        Span::styled(state, palette.style(Role::Bad)),
        Span::styled(cut(&text, room, palette), palette.style(Role::Dim)),
    ])
}

/// What the marks of the bars are.
pub(super) fn legend(palette: Palette, width: usize) -> Line<'static> {
    let words = [
        (Role::Resident, "resident"),
        (Role::Reserved, "reserved"),
        (Role::Headroom, "headroom"),
        (Role::Overhead, "overhead"),
        (Role::Foreign, "foreign"),
        (Role::Dim, "free"),
    ];
    let mut spans = vec![Span::raw("  ")];
    let mut columns = 2;
    for (role, word) in words {
        let text = format!(" {word}");
        columns += 2 + text.len();
        if columns > width {
            break;
        }
        spans.push(Span::raw(" "));
        spans.push(Span::styled(palette.fill(role).to_string(), palette.style(role)));
        spans.push(Span::styled(text, palette.style(Role::Dim)));
    }
    Line::from(spans)
}
