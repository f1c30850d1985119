//! `-lib`: compiles the sources, and puts all objects into an archive.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow};
use mgb_command::exit::{self, CommandResult, WithCode};

use super::inputs::InputKind;
use super::translate::CompilePlan;
use crate::clang;

/// Makes the archive: `a.a` where no output is named, as nvcc has it.
pub fn make(plan: &CompilePlan) -> CommandResult {
    let folder = tempfile::Builder::new()
        .prefix("mgb-")
        .tempdir()
        .context("failed to make a temporary folder; set TMPDIR to a writable folder")
        .code(exit::NODE)?;
    // The plan's words end with its output and inputs; each source gets its own instead.
    let options = plan
        .words
        .iter()
        .position(|word| word == "--end-no-unused-arguments");
    let options = &plan.words[..options.map_or(0, |end| end + 1)];
    let mut objects: Vec<PathBuf> = Vec::new();
    for (number, input) in plan.inputs.iter().enumerate() {
        let InputKind::Source(language) = input.kind else {
            objects.push(PathBuf::from(&input.name));
            continue;
        };
        // In a folder each, since sources of several folders may have one name, and the archive keeps it.
        let place = folder.path().join(number.to_string());
        std::fs::create_dir(&place)
            .with_context(|| format!("failed to make {}", place.display()))
            .code(exit::NODE)?;
        let object = place.join(input.renamed("o"));
        let mut words: Vec<OsString> = options.iter().map(OsString::from).collect();
        words.extend(["-x".into(), language.into(), OsString::from(&input.name)]);
        words.extend(["-o".into(), object.clone().into_os_string()]);
        let code = clang::run(words, true)?;
        if code != exit::OK {
            return Ok(code);
        }
        objects.push(object);
    }
    let output = plan.output.as_deref().unwrap_or(Path::new("a.a"));
    let status = Command::new("ar")
        .arg("rcs")
        .arg(output)
        .args(&objects)
        .status()
        .context("failed to run ar; install the Debian package binutils")
        .code(exit::NODE)?;
    if status.success() {
        Ok(exit::OK)
    } else {
        Err(anyhow!("ar failed to make {}", output.display())).code(exit::USAGE)
    }
}
