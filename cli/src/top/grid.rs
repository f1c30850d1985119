//! Tables whose columns give way to the width of the terminal.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::palette::{Palette, Role};

/// Columns between two columns.
const GAP: usize = 2;
/// Narrower than this the last column says nothing.
const MIN_LAST: usize = 8;

/// A column of a table.
pub(super) struct GridColumn {
    /// What stands above it.
    pub(super) head: &'static str,
    /// Its cells end at the right edge.
    pub(super) is_number: bool,
    /// The least important columns go first where a table is too wide: the larger, the sooner.
    pub(super) goes: u8,
    /// More than that of a cell is not shown.
    pub(super) most: usize,
}

/// A table: the head, and a line for each row.
pub(super) fn grid(
    columns: &[GridColumn],
    rows: &[(Vec<String>, Style)],
    width: usize,
    palette: Palette,
) -> (Line<'static>, Vec<Line<'static>>) {
    let wanted = |at: usize| {
        let cells = rows.iter().filter_map(|(cells, _)| cells.get(at));
        let cells = cells.map(|cell| cell.width());
        cells
            .chain([columns[at].head.width()])
            .max()
            .unwrap_or(0)
            .min(columns[at].most)
    };
    let mut shown: Vec<(usize, usize)> = (0..columns.len()).map(|at| (at, wanted(at))).collect();
    let needs = |shown: &[(usize, usize)]| {
        let last = shown.last().map_or(0, |(_, width)| (*width).min(MIN_LAST));
        let others = shown.iter().rev().skip(1).map(|(_, width)| width + GAP);
        others.sum::<usize>() + last
    };
    while needs(&shown) > width {
        let candidates = shown.iter().map(|(at, _)| *at);
        let Some(goes) = candidates
            .filter(|at| columns[*at].goes > 0)
            .max_by_key(|at| columns[*at].goes)
        else {
            break;
        };
        shown.retain(|(at, _)| *at != goes);
    }
    let line = |cells: &dyn Fn(usize) -> String, style: Style| {
        let mut text = String::new();
        for (nth, (at, column_width)) in shown.iter().enumerate() {
            let is_last = nth + 1 == shown.len();
            let room = if is_last {
                width.saturating_sub(text.width())
            } else {
                *column_width
            };
            let cell = cut(&cells(*at), room, palette);
            let pad = room.saturating_sub(cell.width());
            match (columns[*at].is_number, is_last) {
                (true, false) => text += &format!("{}{cell}", " ".repeat(pad)),
                (false, false) => text += &format!("{cell}{}", " ".repeat(pad)),
                (_, true) => text += &cell,
            }
            if !is_last {
                text += &" ".repeat(GAP);
            }
        }
        Line::from(Span::styled(cut(&text, width, palette), style))
    };
    let head = line(&|at| columns[at].head.to_owned(), palette.style(Role::Head));
    let lines = rows
        .iter()
        .map(|(cells, style)| line(&|at| cells.get(at).cloned().unwrap_or_default(), *style));
    (head, lines.collect())
}

/// The text in so many columns at most, without what terminals take for orders.
pub(super) fn cut(text: &str, width: usize, palette: Palette) -> String {
    let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
    if text.width() <= width {
        return text;
    }
    let mut cut = String::new();
    let mut left = width.saturating_sub(1);
    for letter in text.chars() {
        let columns = letter.width().unwrap_or(0);
        if columns > left {
            break;
        }
        left -= columns;
        cut.push(letter);
    }
    if width > 0 {
        cut.push(palette.ellipsis());
    }
    cut
}
