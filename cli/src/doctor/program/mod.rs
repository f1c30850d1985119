//! A program: whether it starts, whether it comes under mgbd, and what goes past it. It is not run.

mod cuda;
pub mod facts;
mod libraries;
mod paths;
mod start;

use facts::{ProgramFacts, Start};
use mgb_command::check_result::Finding;

/// Checks a program.
pub fn check(facts: &ProgramFacts) -> Vec<Finding> {
    let mut findings = start::check(facts);
    if let Start::Program(program) = &facts.start {
        findings.extend(cuda::check(facts, program));
        findings.extend(paths::check(program));
        findings.extend(libraries::check(program));
    }
    findings
}
