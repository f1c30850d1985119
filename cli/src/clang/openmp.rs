//! OpenMP: clang has a runtime of its own for it, which is a package of its own.

use std::path::Path;
use std::process::Command;

use super::parse::CommandLine;

/// The runtime, by the name that the linker looks for.
const RUNTIME: &str = "libomp.so";

/// What to install where a command asks for OpenMP and clang has none: gcc's does not do, and clang's own
/// errors name a header or a library.
pub fn missing(line: &CommandLine, clang: &Path) -> Option<&'static str> {
    let asked = line
        .arguments
        .iter()
        .rev()
        .find_map(|one| match one.word.as_encoded_bytes() {
            b"-fopenmp" | b"-fopenmp=libomp" => Some(true),
            b"-fno-openmp" => Some(false),
            _ => None,
        });
    if asked != Some(true) {
        return None;
    }
    let found = Command::new(clang)
        .arg(format!("-print-file-name={RUNTIME}"))
        .output()
        .ok()?;
    // Without a folder in front it was not found.
    let is_there = found.stdout.contains(&b'/');
    (!is_there).then_some(
        "-fopenmp needs clang's OpenMP, which is not installed: install the Debian package libomp-22-dev (`make setup` does)",
    )
}
