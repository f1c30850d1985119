//! Device code that is linked across files (`-fgpu-rdc`). clang leaves it in the object, and links it only
//! where the link is told to: else the program lacks its kernels, and nothing says so before it runs.

use std::fs::File;
use std::path::Path;

use anyhow::{Result, bail};
use object::{Object, ReadCache};

use super::language::Language;
use super::parse::{CommandLine, Kind};

/// Where clang leaves device code for the link.
const SECTION: &str = ".llvm.offloading";

/// Objects with such code are linked by a command that links it. Archives are not looked into.
///
/// # Errors
/// When it would be left out.
pub fn check(line: &CommandLine) -> Result<()> {
    // With CUDA sources on the same line clang links device code by itself.
    let links_it =
        line.arguments.iter().any(|one| one.word == "--offload-link") || line.has_input(Language::Cuda);
    if links_it || !line.links() {
        return Ok(());
    }
    let objects = line
        .arguments
        .iter()
        .filter(|one| one.kind == Kind::Input(Language::Linked));
    for object in objects {
        if has_code(Path::new(&object.word)) {
            bail!(
                "{} holds device code that is to be linked with that of other files (-fgpu-rdc), and this \
                 link would leave it out: add --offload-link, with CUDA's folder of nvlink in PATH, or compile without -fgpu-rdc",
                object.word.display()
            );
        }
    }
    Ok(())
}

/// Whether it is an object with code for the link of device code. What cannot be read is the linker's to
/// name.
fn has_code(file: &Path) -> bool {
    let is_object = file.extension().is_some_and(|extension| extension == "o");
    let Some(file) = is_object.then(|| File::open(file).ok()).flatten() else {
        return false;
    };
    let data = ReadCache::new(file);
    object::File::parse(&data).is_ok_and(|object| object.section_by_name(SECTION).is_some())
}
