//! Whether the process writes a trace at its end (`MGB_TRACE`), and where.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static FILE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    std::env::var_os("MGB_TRACE")
        .filter(|name| !name.is_empty())
        .map(Into::into)
});

/// The file that a line is appended to.
pub fn file() -> Option<&'static Path> {
    FILE.as_deref()
}

/// Whether a trace is wanted.
pub fn is_wanted() -> bool {
    file().is_some()
}
