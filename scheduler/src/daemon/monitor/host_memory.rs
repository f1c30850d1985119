//! How much host memory there is for evicted bytes: what the kernel would give, but for a part that stays
//! free for the programs.

use std::fs;

/// The part of the host's memory that stays free.
const KEPT: u64 = 10;

/// Bytes to spare; `None`: the kernel does not say.
pub(crate) fn to_spare() -> Option<u64> {
    spare_of(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn spare_of(text: &str) -> Option<u64> {
    let line = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    let (all, there) = (line("MemTotal:")?, line("MemAvailable:")?);
    Some(there.saturating_sub(all / KEPT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_stays_free() {
        let text =
            |available: &str| format!("MemTotal:       1000 kB\nMemFree: 7 kB\nMemAvailable:{available}\n");
        assert_eq!(spare_of(&text("   300 kB")), Some(200 * 1024));
        assert_eq!(spare_of(&text("   50 kB")), Some(0));
        assert_eq!(spare_of(&text("   ? kB")), None);
        assert_eq!(spare_of(""), None);
    }
}
