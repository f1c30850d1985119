//! Sizes and texts in few columns.

use mgb_probe::byte_size::Bytes;

/// A size in five columns or six: `48.0G`, `512M`, `0`.
pub(super) fn short(bytes: u64) -> String {
    if bytes == 0 {
        return "0".to_owned();
    }
    let text = Bytes(bytes).to_string();
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    format!("{number}{}", unit.chars().next().unwrap_or('B'))
}

/// The same, and a dash for none.
pub(super) fn short_or_dash(bytes: u64) -> String {
    if bytes == 0 { "-".to_owned() } else { short(bytes) }
}

/// Thousandths as percent.
pub(super) fn percent(part: u32) -> String {
    format!("{}%", part.saturating_add(5) / 10)
}
