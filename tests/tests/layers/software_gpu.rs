//! The software GPU stands for a GPU, so it knows nothing of who uses it: MGB's daemon, runtimes and settings.

use std::fs;
use std::path::Path;

use mgb_tests::prefix::repository;

/// The crates of this workspace that it may use.
const MAY_USE: [&str; 3] = ["mgb-abi", "mgb-catalogue", "mgb-stderr"];

/// What of MGB a source names, if anything.
fn named(text: &str) -> Option<&str> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let crates = MAY_USE.map(|name| name.replace('-', "_"));
    words.into_iter().find(|word| {
        let is_part = ["mgbd", "lazyrt"].contains(word) || word.starts_with("MGB_");
        is_part || word.starts_with("mgb_") && !crates.iter().any(|name| name == word)
    })
}

fn look(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a folder's entries can be read").path();
        if path.is_dir() {
            look(&path, found);
        } else if let Some(word) = named(&fs::read_to_string(&path).expect("a source is readable text")) {
            found.push(format!("{}: {word}", path.display()));
        }
    }
}

#[test]
fn the_software_gpu_knows_nothing_of_mgb() {
    let softgpu = repository().join("softgpu");
    let mut found = Vec::new();
    look(&softgpu.join("src"), &mut found);
    look(&softgpu.join("include"), &mut found);
    let manifest = fs::read_to_string(softgpu.join("Cargo.toml")).expect("a crate has one");
    let manifest: toml::Table = manifest.parse().expect("cargo reads it");
    for kind in ["dependencies", "build-dependencies"] {
        let names = manifest[kind].as_table().expect("a table").keys();
        found.extend(
            names
                .filter(|name| name.starts_with("mgb") && !MAY_USE.contains(&name.as_str()))
                .map(|name| format!("{kind}: {name}")),
        );
    }
    assert!(
        found.is_empty(),
        "softgpu names parts of MGB:\n{}",
        found.join("\n")
    );
}

#[test]
fn what_a_source_names_is_found() {
    assert_eq!(named("use mgb_abi::launch; use mgb_stderr::say;"), None);
    assert_eq!(named("let from = \"MGB_SOCKET\";"), Some("MGB_SOCKET"));
    assert_eq!(named("use mgb_abi::x; use mgb_probe::Client;"), Some("mgb_probe"));
    assert_eq!(named("// as lazyrt does"), Some("lazyrt"));
}
