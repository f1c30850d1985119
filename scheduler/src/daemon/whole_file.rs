//! Files of mgbd's own that are there whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Puts what `fill` writes in the place of a file, for its owner to read; its folder is made with this mode
/// where there is none.
///
/// # Errors
/// The system's, and those of `fill`: the file is as it was.
pub(crate) fn replace(
    file: &Path,
    folder_mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(folder_mode)
            .create(folder)?;
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let written = make(&new)
        .and_then(|mut made| fill(&mut made))
        .and_then(|()| fs::rename(&new, file));
    if written.is_err() {
        // On a full disk what was written of it is in the way of others.
        let _ = fs::remove_file(&new);
    }
    written
}

fn make(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)
}
