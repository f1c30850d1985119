//! OpenMP: clang has a runtime of its own for it, which is a package of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::Command;

use super::language::Language;
use super::parse::{ArgumentKind, CommandLine};

/// The runtime, by the name that the linker looks for.
const RUNTIME: &str = "libomp.so";

/// What to install where a command asks for OpenMP and clang has none: gcc's does not do, and clang's own
/// errors name a header or a library.
pub fn missing(line: &CommandLine, clang: &Path) -> Option<&'static str> {
    if !is_asked_for(line) {
        return None;
    }
    find(clang).is_none().then_some(
        "-fopenmp needs clang's OpenMP, which is not installed: install the Debian package libomp-22-dev (`make setup` does)",
    )
}

/// Has a link of device code link the runtime by its file: by the option clang would look for the one that
/// brings OpenMP to GPUs, which is not what CUDA sources ask for.
pub fn for_the_host(line: &mut CommandLine, clang: &Path) {
    if !is_asked_for(line) {
        return;
    }
    // Without it the linker says what is missing, and so does `missing`.
    let Some(runtime) = find(clang) else { return };
    line.arguments.retain(|one| asks(&one.word).is_none());
    line.add(runtime, ArgumentKind::Input(Language::Linked));
}

/// Whether the last option that concerns it asks for OpenMP.
fn is_asked_for(line: &CommandLine) -> bool {
    line.arguments.iter().rev().find_map(|one| asks(&one.word)) == Some(true)
}

fn asks(word: &OsStr) -> Option<bool> {
    match word.as_encoded_bytes() {
        b"-fopenmp" | b"-fopenmp=libomp" => Some(true),
        b"-fno-openmp" => Some(false),
        _ => None,
    }
}

/// The runtime's file.
fn find(clang: &Path) -> Option<OsString> {
    let found = Command::new(clang)
        .arg(format!("-print-file-name={RUNTIME}"))
        .output()
        .ok()?;
    let path = found.stdout.trim_ascii_end().to_vec();
    // Without a folder in front it was not found.
    path.contains(&b'/').then(|| OsString::from_vec(path))
}
