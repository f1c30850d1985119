//! The tables of tasks and of users as lines.

use mgb_command::table::span;
use ratatui::style::Style;
use ratatui::text::Line;

use super::grid::{GridColumn, grid};
use super::palette::{Palette, Role};
use super::rows::{TopRow, UserRow};
use super::sizes::{percent, short, short_or_dash};

/// The longest state or reason in a column.
const MAX_STATE: usize = 34;
/// The longest name of a user in a column.
const MAX_USER: usize = 12;

fn column(head: &'static str, is_number: bool, goes: u8) -> GridColumn {
    GridColumn {
        head,
        is_number,
        goes,
        most: match head {
            "state" => MAX_STATE,
            "user" => MAX_USER,
            _ => usize::MAX,
        },
    }
}

/// Tasks and requests.
pub(super) fn task_table(
    rows: &[TopRow],
    width: usize,
    palette: Palette,
) -> (Line<'static>, Vec<Line<'static>>) {
    let columns = [
        column("gpu", true, 0),
        column("pid", true, 0),
        column("user", false, 4),
        column("state", false, 0),
        column("reserved", true, 0),
        column("held", true, 6),
        column("in host", true, 5),
        column("share", true, 2),
        column("age", true, 3),
        column("task", false, 0),
    ];
    let cells = |row: &TopRow| {
        let cells = vec![
            row.gpu.clone(),
            row.key.pid.to_string(),
            row.user.clone(),
            row.state.clone(),
            short(row.bytes),
            if row.waits {
                "-".to_owned()
            } else {
                short(row.held_bytes)
            },
            short_or_dash(row.evicted_bytes),
            row.share.map_or_else(|| "-".to_owned(), percent),
            span(row.age_ms),
            row.label.clone(),
        ];
        let style = if row.waits {
            palette.style(Role::Waits)
        } else {
            Style::new()
        };
        (cells, style)
    };
    // On a narrow terminal the last words of a state have no room; the line below the table has them.
    let mut columns = columns;
    if width < 80 {
        columns[3].most = 18;
    }
    let rows: Vec<_> = rows.iter().map(cells).collect();
    grid(&columns, &rows, width, palette)
}

/// Users with what they have.
pub(super) fn user_table(
    rows: &[UserRow],
    width: usize,
    palette: Palette,
) -> (Line<'static>, Vec<Line<'static>>) {
    let columns = [
        column("user", false, 0),
        column("tasks", true, 0),
        column("waiting", true, 0),
        column("reserved", true, 0),
        column("quota", true, 4),
        column("in host", true, 3),
        column("share", true, 2),
        column("gpus", false, 0),
    ];
    let cells = |row: &UserRow| {
        let gpus: Vec<String> = row.gpus.iter().map(u32::to_string).collect();
        let cells = vec![
            row.user.clone(),
            row.tasks.to_string(),
            row.waiting.to_string(),
            short(row.bytes),
            row.most_bytes.map_or_else(|| "-".to_owned(), short),
            short_or_dash(row.evicted_bytes),
            percent(row.share),
            if gpus.is_empty() {
                "-".to_owned()
            } else {
                gpus.join(",")
            },
        ];
        (cells, Style::new())
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    grid(&columns, &rows, width, palette)
}
