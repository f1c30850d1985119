//! Aligned tables, and how numbers are written in them.

use std::time::Duration;

/// A table for a terminal: the first row is the head.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// With these column heads; those in `right` are numbers, and end at the right edge.
    pub fn new(head: &[&str], right: &[&str]) -> Self {
        Self {
            rows: vec![head.iter().map(|&title| title.to_owned()).collect()],
            right: head.iter().map(|title| right.contains(title)).collect(),
        }
    }

    /// Adds a row, one cell a column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &width), &right) in row.iter().zip(&widths).zip(&self.right) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                line.push_str(&if right {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                });
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// `1 task`, `2 tasks`.
pub fn plural(count: usize, thing: &str) -> String {
    if count == 1 {
        format!("1 {thing}")
    } else {
        format!("{count} {thing}s")
    }
}

/// Seconds with two decimals: what a batch's times are good for.
pub fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// A span of time, as coarse as it is long.
pub fn span(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        _ => format!("{:.1} h", ms as f64 / 3_600_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["job", "time", "what"], &["time"]);
        table.row(["1", "12.00 s", "first"].map(String::from));
        table.row(["10", "1.00 s", ""].map(String::from));
        assert_eq!(
            table.to_string(),
            "job     time  what\n1    12.00 s  first\n10    1.00 s\n"
        );
    }
}
