//! `--version`: the workspace's version and the commit that the sources are of.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mgb_tests::prefix::{bin, repository};
use mgb_tests::process::{command, run};

/// The build scripts' own file.
#[allow(dead_code, reason = "build scripts alone call `set`")]
#[path = "../../../tools/version.rs"]
mod built;

fn workspace_version() -> String {
    let manifest: toml::Table =
        toml::from_str(&fs::read_to_string(repository().join("Cargo.toml")).unwrap()).unwrap();
    manifest["workspace"]["package"]["version"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = command("git", &["-c", "user.name=x", "-c", "user.email=x", "-C"]);
    run(command.arg(folder).args(arguments))
        .success()
        .trim()
        .to_owned()
}

/// A workspace with two crates, one of which uses the other.
fn sources() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("Cargo.toml", ""),
        ("Cargo.lock", ""),
        ("page.md", ""),
        ("tools/version.rs", ""),
        (
            "app/Cargo.toml",
            "[dependencies]\nmgb-part.workspace = true\nclap.workspace = true\n",
        ),
        ("app/src/main.rs", ""),
        ("part/Cargo.toml", ""),
        ("part/src/lib.rs", ""),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn commit(folder: &Path) -> String {
    built::commit(folder, &built::sources(folder, "app"), None)
}

#[test]
fn both_programs_name_the_version_and_the_commit() {
    for name in ["mgb", "mgbd"] {
        let line = run(&mut command(bin(name), &["--version"])).success();
        let start = format!("{name} {} (", workspace_version());
        let commit = line
            .strip_prefix(&start)
            .and_then(|rest| rest.strip_suffix(")\n"));
        let commit = commit.unwrap_or_else(|| panic!("{line} is not {start}COMMIT)"));
        let digits = commit.strip_suffix(", changed").unwrap_or(commit);
        let is_commit = digits.len() == 12 && digits.chars().all(|c| c.is_ascii_hexdigit());
        assert!(is_commit || commit == "commit unknown", "{line}");
    }
}

#[test]
fn a_changed_source_is_said_and_a_changed_page_is_not() {
    let folder = sources();
    let folder = folder.path();
    assert_eq!(commit(folder), "commit unknown");
    git(folder, &["init", "--quiet"]);
    assert_eq!(commit(folder), "commit unknown");
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", "x"]);
    let head = git(folder, &["rev-parse", "HEAD"])[..12].to_owned();
    assert_eq!(commit(folder), head);
    fs::write(folder.join("page.md"), "new").unwrap();
    assert_eq!(commit(folder), head);
    fs::write(folder.join("part/src/more.rs"), "").unwrap();
    assert_eq!(commit(folder), format!("{head}, changed"));
}

#[test]
fn sources_without_a_repository_have_the_commit_that_an_archive_notes() {
    let folder = sources();
    let folder = folder.path();
    // Somebody else's repository, in which they lie.
    git(folder, &["init", "--quiet"]);
    git(folder, &["add", "page.md"]);
    git(folder, &["commit", "--quiet", "-m", "x"]);
    let inner = folder.join("vendored");
    for name in ["app", "part", "tools"] {
        fs::create_dir_all(&inner).unwrap();
        fs::rename(folder.join(name), inner.join(name)).unwrap();
    }
    assert_eq!(commit(&inner), "commit unknown");
    fs::write(inner.join("tools/commit.txt"), "$Format:%H$\n").unwrap();
    assert_eq!(commit(&inner), "commit unknown");
    fs::write(
        inner.join("tools/commit.txt"),
        "0123456789abcdef0123456789abcdef01234567\n",
    )
    .unwrap();
    assert_eq!(commit(&inner), "0123456789ab");
    let given = built::commit(&inner, &BTreeSet::new(), Some("fedcba9876543210".to_owned()));
    assert_eq!(given, "fedcba987654");
}

#[test]
fn git_notes_the_commit_in_an_archive() {
    let folder = sources();
    let folder = folder.path();
    fs::copy(repository().join(".gitattributes"), folder.join(".gitattributes")).unwrap();
    fs::write(folder.join("tools/commit.txt"), "$Format:%H$\n").unwrap();
    git(folder, &["init", "--quiet"]);
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", "x"]);
    let head = git(folder, &["rev-parse", "HEAD"]);
    let unpacked = folder.join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    git(folder, &["archive", "--output=a.tar", "HEAD"]);
    run(command("tar", &["-xf"])
        .arg(folder.join("a.tar"))
        .arg("-C")
        .arg(&unpacked))
    .success();
    assert_eq!(commit(&unpacked), head[..12]);
}
