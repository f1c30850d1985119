//! What lazyrt writes to the file that `MGB_TRACE` names: one line per process.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// One process.
#[derive(Debug, Deserialize)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Why it was open, if it was.
    pub open: Option<String>,
    /// Why it stayed outside mgbd's MPS, if it did.
    pub outside_mps: Option<String>,
    /// Every task it began.
    pub tasks: Vec<Task>,
}

/// One task of a process.
#[derive(Debug, Deserialize)]
pub struct Task {
    /// The pass's name for it; none for the lazy task.
    pub site: Option<Site>,
    /// Whether it was bound at run time.
    pub lazy: bool,
    /// The GPU it ran on.
    pub gpu: Option<u32>,
    /// Peak live bytes as asked for.
    pub need_peak: u64,
    /// Peak live bytes as seen.
    pub seen_peak: u64,
    /// Kernels that it launched, where the driver front counted them.
    pub launches: Option<u64>,
}

/// The place of a static task in the program.
#[derive(Debug, Deserialize)]
pub struct Site {
    /// Its number in the module's report.
    pub id: u32,
    /// The function that holds it.
    pub function: String,
}

/// Reads a trace file.
///
/// # Errors
///
/// When it cannot be read or holds anything but one document a line.
pub fn read(file: &Path) -> Result<Vec<Process>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("failed to read the trace {}", file.display()))?;
    text.lines()
        .map(|line| {
            serde_json::from_str(line).with_context(|| format!("failed to read the trace line {line}"))
        })
        .collect()
}
