//! Standard output and standard error, for readers that may have gone; and files, whole or not at all.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

/// Prints to standard output. A reader that has seen enough (`| head`) is not an error.
pub fn print(text: &str) {
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

/// Writes a line to standard error, in the words of `format!`, for whoever reads it: a command does its work
/// though its standard error is closed or full.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => { $crate::out::write_line(format_args!($($words)*)) };
}

/// Writes a line to standard error: see [`tell`].
pub fn write_line(line: Arguments<'_>) {
    // At once: a line is not to be broken by what other processes write.
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Writes a file that all may read, whole or not at all: whoever has the old one open keeps it.
///
/// # Errors
/// The system's, also that of `write`.
pub fn replace(file: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let new = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    let mut buffer = io::BufWriter::new(new.as_file());
    write(&mut buffer)?;
    buffer.flush()?;
    drop(buffer);
    // A temporary file is its maker's alone.
    let mode: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    new.as_file().set_permissions(mode)?;
    new.persist(file)?;
    Ok(())
}

/// A document for scripts, with a newline at its end.
pub fn json(document: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(document).map(|text| text + "\n")
}
