//! Tables whose columns are those that are asked for and say something.

use mgb_command::table::Table;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// What people look at first; it fits a terminal of 100 columns.
    Narrow,
    /// All that is known.
    Wide,
}

/// A column of a table with a row for each `T`.
pub(super) struct Column<'a, T> {
    head: &'static str,
    is_number: bool,
    is_shown: bool,
    cell: Box<dyn Fn(&T) -> String + 'a>,
}

impl<'a, T> Column<'a, T> {
    /// A column of words.
    pub(super) fn words(head: &'static str, cell: impl Fn(&T) -> String + 'a) -> Column<'a, T> {
        Column {
            head,
            is_number: false,
            is_shown: true,
            cell: Box::new(cell),
        }
    }

    /// A column of numbers, which end at the right edge.
    pub(super) fn numbers(head: &'static str, cell: impl Fn(&T) -> String + 'a) -> Column<'a, T> {
        Column {
            is_number: true,
            ..Column::words(head, cell)
        }
    }

    /// The same where that holds.
    pub(super) fn shown_if(self, is_shown: bool) -> Column<'a, T> {
        Column {
            is_shown: self.is_shown && is_shown,
            ..self
        }
    }

    /// The same where all that is known is shown.
    pub(super) fn wide(self, width: Width) -> Column<'a, T> {
        self.shown_if(width == Width::Wide)
    }

    /// The same where all that is known is shown, and any row has something to say there.
    pub(super) fn wide_if_any(self, width: Width, rows: &[T], says: fn(&T) -> bool) -> Column<'a, T> {
        self.shown_if(width == Width::Wide && rows.iter().any(says))
    }
}

/// The rows with the columns that are shown.
pub(super) fn table<T>(columns: &[Column<'_, T>], rows: &[T]) -> Table {
    let shown: Vec<&Column<'_, T>> = columns.iter().filter(|column| column.is_shown).collect();
    let head: Vec<&str> = shown.iter().map(|column| column.head).collect();
    let numbers = shown.iter().filter(|column| column.is_number);
    let numbers: Vec<&str> = numbers.map(|column| column.head).collect();
    let mut table = Table::new(&head, &numbers);
    for row in rows {
        table.row(shown.iter().map(|column| (column.cell)(row)));
    }
    table
}
