//! What both drawings share: the colours of things, and how much of a long name is shown.

use mgb_catalogue::report::{OpReport, TaskKind, TaskReport};

/// What an op does, as far as a drawing tells ops apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It makes an object.
    Allocation,
    /// It writes an object, from the host or from another one, or reads it.
    Copy,
    /// It runs a kernel.
    Launch,
    /// It ends an object.
    Free,
    /// Any other call.
    Other,
}

impl Class {
    /// All of them, in the order of a task's life.
    pub const ALL: [Class; 5] = [
        Class::Allocation,
        Class::Copy,
        Class::Launch,
        Class::Free,
        Class::Other,
    ];

    /// What an op does, by what the catalogue says of its function.
    pub fn of(op: &OpReport) -> Self {
        if op.op == "launch" {
            return Class::Launch;
        }
        match mgb_catalogue::lookup(&op.op).map(|entry| entry.class) {
            Some(mgb_catalogue::Class::Alloc) => Class::Allocation,
            Some(mgb_catalogue::Class::Copy | mgb_catalogue::Class::Set | mgb_catalogue::Class::Symbol) => {
                Class::Copy
            }
            Some(mgb_catalogue::Class::Launch) => Class::Launch,
            Some(mgb_catalogue::Class::Free) => Class::Free,
            _ => Class::Other,
        }
    }

    /// Its name in a legend.
    pub fn name(self) -> &'static str {
        match self {
            Class::Allocation => "allocation",
            Class::Copy => "copy or set",
            Class::Launch => "launch",
            Class::Free => "free",
            Class::Other => "other call",
        }
    }

    /// Its fill: tints of colours that colour-blind readers tell apart (M. Okabe and K. Ito, 2008).
    pub fn fill(self) -> &'static str {
        match self {
            Class::Allocation => "#bfe8dc",
            Class::Copy => "#d3ebf9",
            Class::Launch => "#f8dfae",
            Class::Free => "#f0d8e5",
            Class::Other => "#eeeeee",
        }
    }
}

/// A task's frame.
pub fn frame(task: &TaskReport) -> &'static str {
    match task.kind {
        TaskKind::Static => "#0072b2",
        TaskKind::Lazy => "#d55e00",
    }
}

/// At most `limit` characters: the middle of a longer name is left out, since kernels differ at both ends.
pub fn shorten(name: &str, limit: usize) -> String {
    let count = name.chars().count();
    if count <= limit {
        return name.to_owned();
    }
    let tail = (limit - 1) / 3;
    let head = limit - 1 - tail;
    let start: String = name.chars().take(head).collect();
    let end: String = name.chars().skip(count - tail).collect();
    format!("{start}…{end}")
}

/// Lines of at most `width` characters, broken at spaces where there are any.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut rest = text;
    loop {
        let Some((end, _)) = rest.char_indices().nth(width) else {
            lines.push(rest.to_owned());
            return lines;
        };
        // A space just behind the line's end is a place to break too.
        let next = end + rest[end..].chars().next().map_or(0, char::len_utf8);
        match rest[..next].rfind(' ').filter(|&at| at > 0) {
            Some(at) => {
                lines.push(rest[..at].to_owned());
                rest = &rest[at + 1..];
            }
            None => {
                lines.push(rest[..end].to_owned());
                rest = &rest[end..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(shorten("step<double>(ñ*)", 11), "step<do…ñ*)");
        assert_eq!(shorten("step<double>(ñ*)", 11).chars().count(), 11);
    }

    #[test]
    fn lines_break_at_spaces_and_lose_nothing_else() {
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("ééééééé é", 3), ["ééé", "ééé", "é é"]);
    }

    #[test]
    fn classes_are_the_catalogues() {
        let class = |name: &str| {
            Class::of(&OpReport {
                op: name.to_owned(),
                at: Default::default(),
                kernel: None,
                objects: Vec::new(),
            })
        };
        assert_eq!(class("cudaMallocPitch"), Class::Allocation);
        assert_eq!(class("cudaMemcpyAsync"), Class::Copy);
        assert_eq!(class("cudaMemset"), Class::Copy);
        assert_eq!(class("launch"), Class::Launch);
        assert_eq!(class("cudaFreeAsync"), Class::Free);
        assert_eq!(class("cudaStreamSynchronize"), Class::Other);
    }
}
