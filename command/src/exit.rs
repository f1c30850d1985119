//! Exit codes, and the error type that carries one.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | done, but what was asked for failed: a job of a batch, a run of the demo |
//! | 2 | wrong usage, or a file given that cannot be used |
//! | 3 | the node cannot serve: no mgbd, no GPU, no permission, a part of MGB missing |
//! | 123 | `mgb run --or-refuse` only: the program was not started, since it is expected to miss its deadline |
//! | 125, 126, 127 | `mgb run` only: MGB failed; the program cannot be executed; it was not found |
//! | 130, 143 | interrupted by SIGINT, by SIGTERM |
//!
//! `mgb clang` and `mgb nvcc` exit as clang does, and `mgb run` as the program does.

use std::fmt;

/// Everything was done.
pub const OK: u8 = 0;
/// What was asked for was done, and failed.
pub const FAILED: u8 = 1;
/// Wrong usage, or an unusable file.
pub const USAGE: u8 = 2;
/// The node cannot serve: no mgbd, no GPU, no permission, or a part of MGB is missing.
pub const NODE: u8 = 3;
/// `mgb run --or-refuse`: the program is expected to miss its deadline, and was not started.
pub const RUN_REFUSED: u8 = 123;
/// `mgb run`: MGB itself failed.
pub const RUN_FAILED: u8 = 125;
/// `mgb run`: the program cannot be executed.
pub const RUN_CANNOT_EXECUTE: u8 = 126;
/// `mgb run`: the program was not found.
pub const RUN_NOT_FOUND: u8 = 127;

/// An error and the exit code it ends the command with.
#[derive(Debug)]
pub struct Failure {
    /// One of this module's codes.
    pub code: u8,
    /// What went wrong: the thing, the reason and the way out.
    pub error: anyhow::Error,
}

impl Failure {
    /// With any code.
    pub fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        Self {
            code,
            error: error.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

/// What every command returns: its exit code, or why it failed.
pub type CommandResult = Result<u8, Failure>;

/// Shorthand for `map_err` with an exit code.
pub trait WithCode<T> {
    /// Ends the command with `code` if this is an error.
    fn code(self, code: u8) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> WithCode<T> for Result<T, E> {
    fn code(self, code: u8) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(code, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn failure_prints_the_whole_chain() {
        let error: Result<(), _> =
            Err(std::io::Error::from(std::io::ErrorKind::NotFound)).context("failed to read jobs.txt");
        let failure = error.code(USAGE).unwrap_err();
        assert_eq!(failure.code, USAGE);
        assert_eq!(failure.to_string(), "failed to read jobs.txt: entity not found");
    }
}
