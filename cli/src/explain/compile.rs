//! Compiles a source for its report alone, into a temporary object.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use mgb_command::exit::{self, Failure, WithCode};
use mgb_command::prefix::Prefix;

use crate::clang::language::Language;

/// After how long it is said that something is under way.
const QUIET: Duration = Duration::from_secs(2);

/// Whether a file is a source, by its name.
pub fn is_source(file: &Path) -> bool {
    let name = file.as_os_str().as_encoded_bytes();
    matches!(Language::of_file(name), Language::Cuda | Language::Host) && !name.ends_with(b".bc")
}

/// An object with the source's report. The folder goes with the value.
#[derive(Debug)]
pub struct CompiledObject {
    folder: tempfile::TempDir,
}

impl CompiledObject {
    /// The object file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("explained.o")
    }
}

/// Compiles `source` with `options` of clang's, as `mgb clang++ -c` does. What clang says is shown.
///
/// # Errors
/// When it does not compile, or cannot be tried.
pub fn compile(source: &Path, options: &[OsString]) -> Result<CompiledObject, Failure> {
    let folder = tempfile::Builder::new()
        .prefix("mgb-")
        .tempdir()
        .context("failed to make a temporary folder; set TMPDIR to a writable folder")
        .code(exit::NODE)?;
    let object = CompiledObject { folder };
    let mgb = Prefix::find().and_then(|prefix| prefix.mgb()).code(exit::NODE)?;
    let mut command = Command::new(mgb);
    command.arg("clang++").args(options);
    // Last, against options of a whole build: one object, with machine code in it.
    command
        .arg("-fno-lto")
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object.path());
    // The report is the same without them, and the compile quicker.
    command.env("MGB_HOST_KERNELS", "off");
    let child = command
        .spawn()
        .context("failed to run mgb clang++")
        .code(exit::NODE)?;
    let status = waited_for(child, source).code(exit::NODE)?;
    if status.success() {
        return Ok(object);
    }
    let shown = source.display();
    Err(anyhow!(
        "{shown} does not compile (see above); options for it come after --, as in `mgb explain {shown} -- -Iinclude`"
    ))
    .code(exit::USAGE)
}

/// Waits, and says so where a person may wonder.
fn waited_for(mut child: Child, source: &Path) -> Result<ExitStatus> {
    let (done, waits) = mpsc::channel::<()>();
    let text = format!("mgb explain: compiling {} ...", source.display());
    let teller = thread::spawn(move || {
        if waits.recv_timeout(QUIET) == Err(mpsc::RecvTimeoutError::Timeout)
            && std::io::stderr().is_terminal()
        {
            mgb_command::tell!("{text}");
        }
    });
    let status = child.wait().context("failed to wait for clang");
    drop(done);
    // It says one line and ends.
    let _ = teller.join();
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_by_their_names() {
        for name in ["a.cu", "dir/b.cpp", "c.c"] {
            assert!(is_source(Path::new(name)), "{name}");
        }
        for name in ["a.o", "app", "lib.a", "lib.so", "a.bc"] {
            assert!(!is_source(Path::new(name)), "{name}");
        }
    }
}
