//! The layers of every crate: no circles of imports between files, no import from a layer above.
//!
//! `layers.toml` at the root holds the layers. The test reads the `use` lines and paths of every file under
//! `CRATE/src`, except those of `#[cfg(test)]` modules.

mod cases;
mod imports;
mod modules;
mod names;
mod order;
mod report;
mod software_gpu;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use mgb_tests::prefix::repository;
use order::ModuleOrder;

/// The texts of a crate's files by their path below `src`, in the form `broker/rules.rs`.
type Sources = BTreeMap<String, String>;

fn read(folder: &Path, inside: &str, sources: &mut Sources) {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("a folder's entries can be read");
        let name = entry
            .file_name()
            .into_string()
            .expect("names of sources are UTF-8");
        let path = format!("{inside}{name}");
        if entry.path().is_dir() {
            read(&entry.path(), &format!("{path}/"), sources);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(entry.path()).expect("a source is readable text");
            sources.insert(path, text);
        }
    }
}

fn members() -> BTreeSet<String> {
    let manifest = fs::read_to_string(repository().join("Cargo.toml")).expect("the workspace has a manifest");
    let manifest: toml::Table = manifest.parse().expect("the workspace's manifest is TOML");
    let members = manifest["workspace"]["members"]
        .as_array()
        .expect("the workspace lists its members");
    members
        .iter()
        .filter_map(|member| member.as_str().map(str::to_owned))
        .collect()
}

#[test]
fn crates_keep_their_layers() {
    let layers = fs::read_to_string(repository().join("layers.toml")).expect("layers.toml can be read");
    let orders = ModuleOrder::parse_all(&layers).unwrap_or_else(|fault| panic!("layers.toml: {fault}"));
    let members = members();
    let mut faults = Vec::new();
    for name in orders.keys().filter(|name| !members.contains(*name)) {
        faults.push(format!(
            "layers.toml has a section [{name}], but the workspace has no such crate"
        ));
    }
    for member in &members {
        let Some(order) = orders.get(member) else {
            faults.push(format!(
                "layers.toml has no section [{member}]: add one with its layers, bottom first"
            ));
            continue;
        };
        let mut sources = Sources::new();
        read(&repository().join(member).join("src"), "", &mut sources);
        faults.extend(report::faults(member, order, &sources));
    }
    assert!(faults.is_empty(), "\n\n{}\n", faults.join("\n\n"));
}
