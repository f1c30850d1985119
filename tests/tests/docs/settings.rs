//! The environment variables that the code reads, and those that docs/SETTINGS.md describes.

use std::collections::BTreeSet;
use std::fs;

use mgb_tests::prefix::repository;

use crate::page::Page;
use crate::paths::Tree;

const STARTS: [&str; 3] = ["MGB_", "MGBD_", "SOFTGPU_"];

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'
}

/// The variable at the start of a text, and what follows it.
fn variable(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c| !is_of_a_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let is_ours = STARTS
        .iter()
        .any(|start| name.strip_prefix(start).is_some_and(|rest| !rest.is_empty()));
    is_ours.then_some((name, rest))
}

pub fn described() -> BTreeSet<String> {
    let codes = Page::read("docs/SETTINGS.md").codes();
    let names = codes.iter().filter_map(|code| variable(code));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// Names that are a whole string of Rust, C++ or Python, and those that a shell or make expands.
pub fn read_in_the_code() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in Tree::walk().files() {
        let name = path.rsplit('/').next().unwrap_or(path);
        let end = name.rsplit_once('.').map_or("", |(_, end)| end);
        let (starts, ends): (&[&str], &str) = match end {
            "rs" | "cpp" | "h" | "py" => (&["\""], "\""),
            "sh" | "mk" => (&["$", "${", "$(", "$$"], ""),
            _ if name == "Makefile" => (&["$", "${", "$(", "$$"], ""),
            _ => continue,
        };
        let text = fs::read_to_string(repository().join(path)).unwrap_or_default();
        for start in starts {
            for (at, _) in text.match_indices(start) {
                if let Some((name, rest)) = variable(&text[at + start.len()..])
                    && rest.starts_with(ends)
                {
                    names.insert(name.to_owned());
                }
            }
        }
    }
    names
}
