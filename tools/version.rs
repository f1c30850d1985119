//! What `mgb --version` and `mgbd --version` print: included by the build scripts of both.
//!
//! The version is the workspace's, the commit that of the sources that the program is made of. Cargo runs the script
//! again when one of these changes, which has the program built again anyway, and at nothing else: a commit that changes
//! only a page builds nothing. Such a program names the commit that it was built from, whose sources are the same.
//! A release is built with MGB_COMMIT, so that all its parts name one commit.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many digits of a commit are shown.
const SHOWN: usize = 12;

/// Sets `VERSION_TEXT` for the crate, such as `0.1.0 (40740af6a1b2)`; `changed` in it says that sources differed from
/// the commit's.
pub fn set() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let root = package.parent().expect("a crate lies in the workspace's folder");
    let name = package.file_name().expect("a crate's folder has a name");
    let sources = sources(root, name);
    for path in sources.iter().filter(|path| root.join(path).exists()) {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo::rerun-if-env-changed=MGB_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets CARGO_PKG_VERSION");
    let commit = commit(root, &sources, env::var("MGB_COMMIT").ok());
    println!("cargo::rustc-env=VERSION_TEXT={version} ({commit})");
}

/// The files and folders below `root` that the crate in the folder `package` is made of, those of the workspace's
/// crates that it uses included.
pub fn sources(root: &Path, package: impl Into<PathBuf>) -> BTreeSet<PathBuf> {
    let mut crates: Vec<PathBuf> = vec![package.into()];
    let mut sources = BTreeSet::from([
        "Cargo.lock".into(),
        "Cargo.toml".into(),
        "tools/version.rs".into(),
    ]);
    while let Some(folder) = crates.pop() {
        let manifest = folder.join("Cargo.toml");
        if !sources.insert(manifest.clone()) {
            continue;
        }
        sources.extend(["src", "data", "build", "build.rs"].map(|part| folder.join(part)));
        let text = fs::read_to_string(root.join(&manifest))
            .unwrap_or_else(|error| panic!("failed to read {}: {error}", manifest.display()));
        // Crates of the workspace are named for their folders.
        crates.extend(text.lines().filter_map(|line| {
            let dependency = line.strip_prefix("mgb-")?.split_once(".workspace")?.0;
            Some(PathBuf::from(dependency))
        }));
    }
    sources
}

/// The commit of `sources`: the one that whoever builds a release gives, that `git archive` has noted, or of git.
pub fn commit(root: &Path, sources: &BTreeSet<PathBuf>, given: Option<String>) -> String {
    if let Some(given) = given.filter(|given| !given.trim().is_empty()) {
        return shortened(given.trim());
    }
    let noted = fs::read_to_string(root.join("tools/commit.txt")).unwrap_or_default();
    if !noted.trim().is_empty() && !noted.starts_with('$') {
        return shortened(noted.trim());
    }
    of_git(root, sources).unwrap_or_else(|| "commit unknown".to_owned())
}

fn of_git(root: &Path, sources: &BTreeSet<PathBuf>) -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command
            .arg("--no-optional-locks")
            .arg("-C")
            .arg(root)
            .args(arguments);
        if arguments.contains(&"status") {
            command.args(sources);
        }
        let output = command.output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    };
    // Sources that lie in somebody else's repository, as those of a package do, are not that one's.
    let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?.trim());
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let commit = shortened(git(&["rev-parse", "HEAD"])?.trim());
    let changes = git(&["status", "--porcelain", "--"])?;
    Some(if changes.is_empty() {
        commit
    } else {
        format!("{commit}, changed")
    })
}

fn shortened(commit: &str) -> String {
    commit
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric())
        .take(SHOWN)
        .collect()
}
