//! The link of device code as a step of its own, as nvcc has it (`-dlink`): an object that any linker takes
//! beside those whose device code it holds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::across::{self, CLANGS, DeviceCode, LINKED};
use super::parse::CommandLine;
use super::spawn;

/// What does it.
pub struct Tools<'a> {
    /// The path of clang itself.
    pub clang: &'a Path,
    /// The path of the pass's plugin.
    pub plugin: &'a Path,
    /// The folder of CUDA's own tools.
    pub folder: PathBuf,
}

/// Links the device code of a link's files, and not their host code. False: they have none.
///
/// # Errors
/// When a tool fails or is missing.
pub fn link(line: &CommandLine, output: &Path, tools: &Tools) -> Result<bool> {
    let device = DeviceCode::of(line, tools.clang)?;
    if !device.is_some() {
        return Ok(false);
    }
    let folder = across::own_folder()?;
    let place = |name: &str| folder.path().join(name);
    let linked = place("linked.o");
    let mut link = Command::new(tools.clang);
    link.env("PATH", spawn::path_and(&tools.folder))
        .arg("-o")
        .arg(&linked);
    // The linker is to make an object, of objects without host code: `-i` is GNU ld's name for that which
    // clang's own tools do not take for a wish of theirs.
    link.args(["--offload-link", "-fuse-ld=bfd", "-nostdlib", "-no-pie"]);
    link.args(["-Wl,-i", "-Wl,-z,noexecstack"]);
    for (number, file) in across::files(line).enumerate() {
        if file.extension().is_none_or(|extension| extension != "o") {
            link.arg(file);
            continue;
        }
        let alone = place(&format!("{number}.o"));
        let mut copy = Command::new("objcopy");
        copy.arg(format!("--only-section={CLANGS}")).arg("--strip-all");
        spawn::succeed(copy.arg(file).arg(&alone))?;
        link.arg(alone);
    }
    spawn::succeed(&mut link)?;
    let mark = place("mark");
    std::fs::write(&mark, device.mark()).with_context(|| format!("failed to write {}", mark.display()))?;
    let mut add = OsString::from(format!("--add-section={LINKED}="));
    add.push(&mark);
    let mut clean = Command::new("objcopy");
    clean.arg(format!("--remove-section={CLANGS}")).arg(add);
    clean.arg(format!("--set-section-flags={LINKED}=exclude,readonly"));
    spawn::succeed(clean.arg(&linked))?;
    let (_folder, beside) = device.beside(tools.clang, tools.plugin)?;
    let mut join = Command::new("ld");
    join.args(["-r", "-o"]).arg(output).arg(&linked);
    spawn::succeed(join.arg(beside))?;
    Ok(true)
}
