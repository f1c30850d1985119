//! The pass's report, read from the program as `mgb explain` does, but by other code.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use object::{Object, ObjectSection};
use serde::Deserialize;

/// The report of one module.
#[derive(Debug, Deserialize)]
pub struct ModuleReport {
    /// Its source file.
    pub source: String,
    /// What the pass found.
    pub tasks: Vec<ReportedTask>,
}

/// One task, static or lazy.
#[derive(Debug, Deserialize)]
pub struct ReportedTask {
    /// Its number in the module.
    pub id: u32,
    /// `static` or `lazy`.
    pub kind: String,
    /// Why it is lazy.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// What it needs.
    #[serde(default)]
    pub need: ReportedNeed,
}

/// What a task needs, as formulas over the program's own names; empty for a lazy one.
#[derive(Debug, Default, Deserialize)]
pub struct ReportedNeed {
    /// The peak of live bytes.
    pub peak: Option<String>,
}

/// Why something is lazy.
#[derive(Debug, Deserialize)]
pub struct Reason {
    /// A fixed word for it.
    pub code: String,
    /// The same for people.
    pub text: String,
}

/// Reads the reports of all modules in a program or object.
///
/// # Errors
///
/// When the file is no object file, has no report, or holds one that is no JSON.
pub fn read(file: &Path) -> Result<Vec<ModuleReport>> {
    let bytes = fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
    let program = object::File::parse(&*bytes)?;
    let section = program
        .section_by_name(".mgb.report")
        .with_context(|| format!("{} has no report", file.display()))?;
    // Linkers may pad between the modules' parts.
    let text: Vec<u8> = section.data()?.iter().copied().filter(|&b| b != 0).collect();
    serde_json::Deserializer::from_slice(&text)
        .into_iter()
        .collect::<Result<_, _>>()
        .with_context(|| format!("failed to read the report of {}", file.display()))
}
