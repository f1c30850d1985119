//! The words of sources: a doc comment stands alone in a search result, a limit says what it limits, and a type
//! is named for what it is.
//!
//! The test reads every source of the crates in [`DONE`], which others are added to as they are brought there.

mod check;

use std::fs;
use std::path::Path;

use mgb_tests::prefix::repository;

/// The crates and folders that keep the rules.
const DONE: [&str; 15] = [
    "benches",
    "blas",
    "catalogue",
    "cli",
    "core",
    "examples",
    "front",
    "lazyrt",
    "pass",
    "probe",
    "scheduler/src/daemon",
    "softgpu",
    "spank",
    "stderr",
    "tests",
];

/// Appends what is wrong in the sources below `folder`.
fn read(folder: &Path, faults: &mut Vec<String>) {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder's entries can be read").path();
        if path.is_dir() {
            read(&path, faults);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&path).expect("a source is readable text");
            let shown = path.strip_prefix(repository()).unwrap_or(&path);
            let found = check::faults(&text);
            faults.extend(found.map(|(line, fault)| format!("{}:{line}: {fault}", shown.display())));
        }
    }
}

#[test]
fn sources_keep_the_rules_of_words() {
    let mut faults = Vec::new();
    for name in DONE {
        read(&repository().join(name), &mut faults);
    }
    assert!(faults.is_empty(), "\n\n{}\n", faults.join("\n"));
}
