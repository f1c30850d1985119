//! The functions of the runtime that the software GPU refuses, with the reason (`data/softgpu.txt`).

/// Name or prefix of names, and reason.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("../data/softgpu.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(pattern, reason)| (pattern, reason.trim()))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

/// Why the software GPU refuses a function; `None` for those that it has.
pub fn refusal(name: &str) -> Option<&'static str> {
    let plain = crate::table::lookup(name)
        .and_then(|entry| entry.base)
        .unwrap_or(name);
    let mut found = rows().filter(|(pattern, _)| matches(pattern, plain));
    found.next().map(|(_, reason)| reason)
}

/// The rows that match none of these functions.
pub fn unused<'a>(refused: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = &'static str> + 'a {
    let none = move |pattern: &str| {
        let mut about = crate::table::all()
            .iter()
            .filter(|entry| matches(pattern, entry.name));
        !about.any(|entry| refused(entry.name))
    };
    rows()
        .map(|(pattern, _)| pattern)
        .filter(move |pattern| none(pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_found_by_name_beginning_and_form() {
        assert!(refusal("cudaGLSetGLDevice").is_some_and(|why| why.starts_with("OpenGL")));
        assert!(refusal("cudaSignalExternalSemaphoresAsync_ptsz").is_some());
        assert_eq!(refusal("cudaMalloc"), None);
    }
}
