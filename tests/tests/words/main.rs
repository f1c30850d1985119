//! The words of sources: a doc comment stands alone in a search result, a limit says what it limits, and a type
//! is named for what it is, by a name that says so without its module.
//!
//! All crates in [`ALL`] are read, and nothing in them is excepted.

mod check;
mod types;

use std::fs;
use std::path::Path;

use mgb_tests::prefix::repository;

/// All crates, and the folders beside them that have sources.
const ALL: [&str; 20] = [
    "abi",
    "benches",
    "blas",
    "catalogue",
    "cli",
    "command",
    "core",
    "examples",
    "front",
    "fuzz",
    "interface",
    "lazyrt",
    "pass",
    "probe",
    "scheduler",
    "slurm",
    "softgpu",
    "spank",
    "stderr",
    "tests",
];

/// Calls `each` with the name below the repository and the text of every source below `folder`.
fn sources(folder: &Path, each: &mut impl FnMut(&str, &str)) {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder's entries can be read").path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, each);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&path).expect("a source is readable text");
            let shown = path.strip_prefix(repository()).unwrap_or(&path);
            each(&shown.display().to_string(), &text);
        }
    }
}

#[test]
fn sources_keep_the_rules_of_words() {
    let mut faults = Vec::new();
    for name in ALL {
        sources(&repository().join(name), &mut |file, text| {
            faults.extend(check::faults(text).map(|(line, fault)| format!("{file}:{line}: {fault}")));
        });
    }
    assert!(faults.is_empty(), "\n\n{}\n", faults.join("\n"));
}

#[test]
fn a_name_stands_for_two_types_at_most() {
    let mut definitions = types::Definitions::new();
    for name in ALL {
        sources(&repository().join(name), &mut |file, text| {
            types::add(file, text, &mut definitions);
        });
    }
    let faults = types::faults(&definitions);
    assert!(faults.is_empty(), "\n\n{}\n", faults.join("\n"));
}
