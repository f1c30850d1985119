//! `CUDA_VISIBLE_DEVICES`: which devices a process sees, and in which order.
//!
//! As CUDA reads it: a list of indices or UUIDs (`GPU-…`, or a prefix that names one device); the
//! first entry that names no device ends the list; naming a device twice leaves none.

use super::profile;

/// The physical indices of the visible devices, of `count`, for the variable's value.
pub fn visible(value: Option<&str>, count: usize) -> Vec<usize> {
    let Some(value) = value else {
        return (0..count).collect();
    };
    let mut seen = Vec::new();
    for entry in value.split(',') {
        let Some(index) = resolve(entry.trim(), count) else {
            break;
        };
        if seen.contains(&index) {
            return Vec::new();
        }
        seen.push(index);
    }
    seen
}

fn resolve(entry: &str, count: usize) -> Option<usize> {
    if let Ok(index) = entry.parse::<usize>() {
        return (index < count).then_some(index);
    }
    if entry.len() <= "GPU-".len() || !entry.starts_with("GPU-") {
        return None;
    }
    let entry = entry.to_ascii_lowercase();
    let mut named = (0..count).filter(|&index| {
        profile::uuid_text(&profile::uuid(index))
            .to_ascii_lowercase()
            .starts_with(&entry)
    });
    let first = named.next()?;
    named.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_cuda_reads_it() {
        assert_eq!(visible(None, 3), [0, 1, 2]);
        assert_eq!(visible(Some("2,0"), 3), [2, 0]);
        assert_eq!(visible(Some("1,7,0"), 3), [1]);
        assert_eq!(visible(Some(""), 3), []);
        assert_eq!(visible(Some("-1"), 3), []);
        assert_eq!(visible(Some("0,0"), 3), []);
        let uuid = profile::uuid_text(&profile::uuid(1));
        assert_eq!(visible(Some(&uuid), 3), [1]);
        assert_eq!(visible(Some(&format!("{uuid},0")), 3), [1, 0]);
        assert_eq!(visible(Some("GPU-6d67622d"), 3), []);
        assert_eq!(visible(Some("GPU-6d67622d"), 1), [0]);
        assert_eq!(visible(Some("GPU-"), 1), []);
    }
}
