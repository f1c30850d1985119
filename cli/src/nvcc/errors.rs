//! `-Werror` and its kinds.

use anyhow::{Result, bail};

/// What makes clang treat these kinds of warnings as errors.
///
/// # Errors
/// On kinds that nvcc has not.
pub fn words(kinds: &[String], notes: &mut Vec<String>) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for kind in kinds {
        match kind.as_str() {
            "all-warnings" => words.push("-Werror".into()),
            "reorder" | "deprecated-declarations" => words.push(format!("-Werror={kind}")),
            "cross-execution-space-call" => {
                notes.push(format!("left out -Werror {kind}: it is an error to clang anyway"));
            }
            "default-stream-launch" | "missing-launch-bounds" | "ext-lambda-captures-this" => {
                notes.push(format!("left out -Werror {kind}: clang does not warn of it"));
            }
            _ => bail!("-Werror {kind}: nvcc has no such kind of warnings; all-warnings makes errors of all"),
        }
    }
    Ok(words)
}
