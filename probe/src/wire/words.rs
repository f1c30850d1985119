//! Words of two halves.

/// The halves of a word.
pub(super) fn low_high(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// A word of two halves.
pub(super) fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
