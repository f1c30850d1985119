//! What a check found, and all findings as a document. `mgb doctor` and `mgb cluster check` have such checks.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// What was checked works.
    Ok,
    /// It works, but somebody may want to know.
    Note,
    /// It does not work.
    Problem,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check's name, the same in every version.
    pub name: &'static str,
    /// How bad it is.
    pub state: Severity,
    /// What is so, and what follows from it.
    pub text: String,
    /// What to do about it.
    pub way_out: Option<String>,
}

impl Finding {
    /// A finding that it works.
    pub fn ok(name: &'static str, text: impl Into<String>) -> Self {
        Self::of(name, Severity::Ok, text)
    }

    /// It works, but somebody may want to know.
    pub fn note(name: &'static str, text: impl Into<String>) -> Self {
        Self::of(name, Severity::Note, text)
    }

    /// It does not work.
    pub fn problem(name: &'static str, text: impl Into<String>) -> Self {
        Self::of(name, Severity::Problem, text)
    }

    fn of(name: &'static str, state: Severity, text: impl Into<String>) -> Self {
        Self {
            name,
            state,
            text: text.into(),
            way_out: None,
        }
    }

    /// What to do about it.
    pub fn way_out(mut self, way_out: impl Into<String>) -> Self {
        self.way_out = Some(way_out.into());
        self
    }
}

/// Columns of the longest state.
const STATE: usize = "problem".len();

/// Adds a finding's line for people, and its way out below; names have `name` columns.
pub fn line(text: &mut String, finding: &Finding, name: usize) {
    let state = match finding.state {
        Severity::Ok => "ok",
        Severity::Note => "note",
        Severity::Problem => "problem",
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {state:STATE$}  {:name$}  {}", finding.name, finding.text);
    if let Some(way_out) = &finding.way_out {
        let _ = writeln!(text, "  {:STATE$}  {:name$}  -> {way_out}", "", "");
    }
}

/// All that was found, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    version: u32,
    /// How many findings are problems.
    pub problems: usize,
    /// How many are notes.
    pub notes: usize,
    /// Of the node.
    pub node: Vec<Finding>,
    /// Of the program, if one was named.
    pub program: Option<ProgramReport>,
}

/// What was found about a program.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramReport {
    /// As it was named, with its arguments.
    pub command: Vec<String>,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Version of the document.
    const VERSION: u32 = 1;

    /// A report of the findings, which it counts.
    pub fn new(node: Vec<Finding>, program: Option<ProgramReport>) -> Self {
        let count = |state| {
            let of_program = program.iter().flat_map(|program| &program.findings);
            let all = node.iter().chain(of_program);
            all.filter(|finding| finding.state == state).count()
        };
        Self {
            version: Self::VERSION,
            problems: count(Severity::Problem),
            notes: count(Severity::Note),
            node,
            program,
        }
    }
}

/// Findings for tests: the one of a name, its state and whether its texts have all these words.
#[track_caller]
pub fn expect(findings: &[Finding], name: &str, state: Severity, words: &[&str]) {
    let Some(found) = findings
        .iter()
        .find(|finding| finding.name == name && finding.state == state)
    else {
        panic!("no finding `{name}` that is {state:?}: {findings:#?}");
    };
    let said = format!("{} {}", found.text, found.way_out.as_deref().unwrap_or_default());
    for word in words {
        assert!(said.contains(word), "`{word}` is missing: {found:#?}");
    }
    assert!(
        state != Severity::Problem || found.way_out.is_some(),
        "a problem without a way out: {found:#?}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_counts_the_programs_findings_too() {
        let node = vec![Finding::ok("a", "fine"), Finding::note("b", "so")];
        let program = ProgramReport {
            command: vec!["./app".to_owned()],
            findings: vec![
                Finding::note("c", "so"),
                Finding::problem("d", "bad").way_out("mend it"),
            ],
        };
        let report = CheckReport::new(node, Some(program));
        assert_eq!((report.problems, report.notes), (1, 2));
        let document = serde_json::to_value(&report).unwrap();
        assert_eq!(document["version"], 1);
        assert_eq!(document["node"][1]["state"], "note");
        assert_eq!(document["program"]["findings"][1]["way_out"], "mend it");
    }
}
