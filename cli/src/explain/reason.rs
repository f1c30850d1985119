//! What a reason means, and what to do about it: a section of `docs/REASONS.md`.

use anyhow::{Result, bail};

const PAGE: &str = include_str!("../../../docs/REASONS.md");

/// The section of the reason with this name.
pub fn section(name: &str) -> Result<&'static str> {
    let sections = || {
        PAGE.split("\n## ")
            .skip(1)
            .filter_map(|section| section.split_once('\n'))
    };
    if let Some((_, text)) = sections().find(|(title, _)| *title == name) {
        return Ok(text.trim_start());
    }
    let names: Vec<&str> = sections().map(|(title, _)| title).collect();
    bail!("no reason is called {name}; there are: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use mgb_catalogue::report::ReasonCode;

    use super::*;

    #[test]
    fn every_reason_has_its_section_and_no_other_has() {
        let mut names: Vec<String> = ReasonCode::ALL.iter().map(ToString::to_string).collect();
        let mut titles: Vec<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        names.sort();
        titles.sort_unstable();
        assert_eq!(names, titles);
        for name in &names {
            assert!(section(name).unwrap().len() > 80, "{name}");
        }
        assert!(
            section("nonsense")
                .unwrap_err()
                .to_string()
                .contains("address-escapes")
        );
    }
}
