//! The screen as a whole, and one frame of it as text.

use mgb_command::table::{plural, span};
use mgb_probe::view::NodeView;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::gpu_lines::{GpuStyle, chart_width, gpu_lines, legend};
use super::grid::cut;
use super::jobs::{job_lines, said_of_jobs};
use super::palette::{Palette, Role};
use super::state::{Pane, Question, TopState};
use super::tables::{task_table, user_table};

/// Rows of the lower table that are left, whatever the GPUs want.
const MIN_ROWS: usize = 5;
/// From this height on there is a line on the marks of the bars.
const LEGEND_HEIGHT: usize = 20;

const HELP: [&str; 17] = [
    "up, down, j, k, page up, page down, home, end",
    "       select a task, or a request that waits",
    "x      end its process by SIGTERM, after a question",
    "s      suspend its process: its memory leaves the GPUs; s again: resume",
    "m      move its process to another GPU",
    "o, r   the next order of tasks; reverse it",
    "b      your jobs in the queue (`mgb queue`), and back",
    "u      what users have, and back; tab: the next of these",
    "q      quit (escape and ctrl-c too)",
    "",
    "bars   resident: mapped by tasks; reserved: not mapped; headroom: kept for growth;",
    "       overhead: contexts, modules, workspaces; foreign: not under MGB, the driver's,",
    "       or of processes that have just ended",
    "sizes  committed (reserved, headroom and contexts) of usable; load: part of the last",
    "       seconds in which programs under MGB had work there",
    "share  a process's part of the time in which its GPU had work",
    "`mgb why PID` says more of one process, `mgb status --wide` of all",
];

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, state: &TopState, palette: Palette) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = vec![title(state, width, palette)];
    // The title, the head of the table, the line on what is selected, the keys.
    let below = 1 + MIN_ROWS + 2;
    lines.extend(upper(
        state,
        width,
        height.saturating_sub(1 + below),
        height >= LEGEND_HEIGHT,
        palette,
    ));
    let room = height.saturating_sub(lines.len() + 2);
    lines.extend(lower(state, width, room, palette));
    lines.truncate(height.saturating_sub(2));
    put(frame, 0, &lines);
    if height >= 2 {
        put(
            frame,
            height - 2,
            &[told(state, width, palette), keys(state, width, palette)],
        );
    }
}

fn put(frame: &mut Frame<'_>, at: usize, lines: &[Line<'static>]) {
    let area = frame.area();
    let top = u16::try_from(at).unwrap_or(u16::MAX).min(area.height);
    let area = Rect {
        y: area.y + top,
        height: area.height - top,
        ..area
    };
    frame.render_widget(Paragraph::new(lines.to_vec()), area);
}

/// One frame with all rows, for scripts and pipes.
pub(super) fn text(state: &TopState, width: usize, palette: Palette) -> String {
    let mut lines = vec![title(state, width, palette)];
    lines.extend(upper(state, width, usize::MAX, false, palette));
    for (head, rows) in [
        task_table(&state.rows(), width, palette),
        job_lines(state, width, palette),
        user_table(&state.user_rows(), width, palette),
    ] {
        if !rows.is_empty() {
            lines.push(Line::raw(""));
            lines.push(head);
            lines.extend(rows);
        }
    }
    lines
        .iter()
        .map(|line| format!("{}\n", line.to_string().trim_end()))
        .collect()
}

fn title(state: &TopState, width: usize, palette: Palette) -> Line<'static> {
    let text = match &state.view {
        Ok(view) => said_of(view) + &said_of_jobs(state),
        Err(why) => format!("mgb top: {why}"),
    };
    Line::from(Span::styled(
        cut(&text, width, palette),
        palette.style(Role::Head),
    ))
}

fn said_of(view: &NodeView) -> String {
    let tasks = view.tasks.len() as u64 + view.cut.tasks;
    let waiting = view.queue.len() as u64 + view.cut.queue;
    let mut text = format!(
        "mgbd {}, {}, {}, {waiting} waiting, policy {}, up {}",
        view.mgbd_pid,
        plural(view.clients as usize, "program"),
        plural(tasks as usize, "task"),
        view.policy,
        span(view.uptime_ms)
    );
    let counts = &view.counts;
    for (count, thing) in [(counts.evicted, "eviction"), (counts.moved, "move")] {
        if count > 0 {
            text += &format!(", {}", plural(count as usize, thing));
        }
    }
    text
}

/// The GPUs, in so many lines at most.
fn upper(
    state: &TopState,
    width: usize,
    most: usize,
    has_legend: bool,
    palette: Palette,
) -> Vec<Line<'static>> {
    let Ok(view) = &state.view else {
        return Vec::new();
    };
    let has_details = view.gpus.len() * 2 + usize::from(has_legend) <= most;
    let style = GpuStyle {
        palette,
        width,
        has_details,
    };
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (at, gpu) in view.gpus.iter().enumerate() {
        let loads = state.loads(&gpu.gpu.uuid, chart_width(width));
        let more = gpu_lines(gpu, &loads, style);
        let left = view.gpus.len() - at;
        // The last line says how many have none, unless this one is the last.
        if lines.len() + more.len() + usize::from(left > 1) > most {
            lines.push(Line::raw(format!("   and {}", plural(left, "more GPU"))));
            break;
        }
        lines.extend(more);
    }
    if has_legend && lines.len() < most {
        lines.push(legend(palette, width));
    }
    lines
}

/// The table, with the selected row in sight.
fn lower(state: &TopState, width: usize, room: usize, palette: Palette) -> Vec<Line<'static>> {
    if state.pane == Pane::Help {
        return HELP
            .iter()
            .map(|line| Line::raw(cut(line, width, palette)))
            .collect();
    }
    if state.view.is_err() {
        return vec![Line::raw(""), Line::raw("mgbd is asked again and again; q quits")];
    }
    let rows = state.rows();
    let (head, mut lines, selected) = match state.pane {
        Pane::Users => {
            let (head, lines) = user_table(&state.user_rows(), width, palette);
            (head, lines, None)
        }
        Pane::Jobs => {
            let (head, lines) = job_lines(state, width, palette);
            (head, lines, None)
        }
        _ => {
            let (head, lines) = task_table(&rows, width, palette);
            (head, lines, Some(state.selected(&rows)))
        }
    };
    if lines.is_empty() {
        let nothing = match state.pane {
            Pane::Jobs => "no jobs: `mgb submit -- COMMAND` adds one",
            _ => "no tasks, and none waits",
        };
        return vec![head, Line::raw(cut(nothing, width, palette))];
    }
    let most = room.saturating_sub(1);
    if let Some(at) = selected {
        // Reversed to the edge of the screen.
        if let Some(line) = lines.get_mut(at) {
            let text = line.to_string();
            let pad = width.saturating_sub(line.width());
            let text = format!("{text}{}", " ".repeat(pad));
            *line = Line::from(Span::styled(text, palette.style(Role::Selected)));
        }
        let first = (at + 1).saturating_sub(most);
        lines.drain(..first.min(lines.len()));
    }
    let hidden = lines.len().saturating_sub(most);
    lines.truncate(most);
    if hidden > 0
        && let Some(last) = lines.last_mut().filter(|_| selected.is_none())
    {
        *last = Line::raw(format!("and {}", plural(hidden + 1, "more row")));
    }
    [vec![head], lines].concat()
}

/// What is asked, what came of the last action, or all of what is selected.
fn told(state: &TopState, width: usize, palette: Palette) -> Line<'static> {
    let bad = |text: String| Line::from(Span::styled(cut(&text, width, palette), palette.style(Role::Bad)));
    match (&state.question, &state.message) {
        (Some(Question::Cancel { pid, label }), _) => {
            bad(format!("end process {pid} ({label}) by SIGTERM? y/n"))
        }
        (Some(Question::Move { pid, digits }), _) => {
            bad(format!("move process {pid} to GPU: {digits}_  (enter, escape)"))
        }
        (None, Some(message)) => bad(message.clone()),
        (None, None) if state.pane == Pane::Tasks => {
            let rows = state.rows();
            let text = rows.get(state.selected(&rows)).map_or(String::new(), |row| {
                format!("{}: {}, {}", row.key.pid, row.state, row.label)
            });
            Line::from(Span::styled(cut(&text, width, palette), palette.style(Role::Dim)))
        }
        (None, None) => Line::raw(""),
    }
}

fn keys(state: &TopState, width: usize, palette: Palette) -> Line<'static> {
    let direction = if state.is_reversed { ", reversed" } else { "" };
    let text = match state.pane {
        Pane::Tasks => format!(
            "q quit  x end  s suspend  m move  b jobs  u users  ? help  o order: {}{direction}",
            state.order.name()
        ),
        Pane::Users => "u tasks  b jobs  ? help  q quit".to_owned(),
        Pane::Jobs => "b tasks  u users  ? help  q quit".to_owned(),
        Pane::Help => "? back  q quit".to_owned(),
    };
    Line::from(Span::styled(
        cut(&text, width, palette),
        palette.style(Role::Head),
    ))
}
