//! How much host memory a job will take: what jobs of the same kind took, else a guess.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// For how long a job of a program that was not seen before may still grow to what a job is guessed to
/// take.
const GROWING: Duration = Duration::from_secs(10);

/// What tells jobs apart, as far as their host memory is concerned.
#[derive(Clone, Copy, Debug)]
pub struct HostKind<'a> {
    /// The command as written.
    pub text: &'a str,
    /// The file of the program.
    pub program: &'a Path,
}

/// The most that finished jobs had, in bytes.
#[derive(Clone, Debug, Default)]
pub struct Peaks {
    commands: HashMap<String, u64>,
    programs: HashMap<PathBuf, u64>,
}

impl Peaks {
    /// Takes note of what a job had at its peak.
    pub fn remember(&mut self, job: HostKind<'_>, bytes: u64) {
        let command = self.commands.entry(job.text.to_owned()).or_default();
        *command = bytes.max(*command);
        let program = self.programs.entry(job.program.to_owned()).or_default();
        *program = bytes.max(*program);
    }

    /// What this command took; else the most that a job of its program took.
    fn known(&self, command: &str, program: &Path) -> Option<u64> {
        self.commands
            .get(command)
            .or_else(|| self.programs.get(program))
            .copied()
    }

    /// What a job will take that is not started yet; `guess` if its program is unknown.
    pub fn of_next(&self, job: HostKind<'_>, guess: u64) -> u64 {
        self.known(job.text, job.program).unwrap_or(guess)
    }

    /// What a job that runs may still take, given what it has and had, and for how long it has run.
    pub fn still_to_come(&self, job: HostKind<'_>, now: u64, peak: u64, age: Duration, guess: u64) -> u64 {
        let will = match self.known(job.text, job.program) {
            Some(known) => known.max(peak),
            None if age < GROWING => guess.max(peak),
            // It shows by now what it is like.
            None => peak + peak / 4,
        };
        will.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> HostKind<'_> {
        HostKind {
            text,
            program: Path::new(text.split(' ').next().unwrap_or_default()),
        }
    }

    #[test]
    fn the_command_is_known_best_then_the_program() {
        let mut peaks = Peaks::default();
        peaks.remember(job("train 1"), 100);
        peaks.remember(job("train 2"), 300);
        peaks.remember(job("train 1"), 80);
        assert_eq!(peaks.of_next(job("train 1"), 7), 100);
        assert_eq!(peaks.of_next(job("train 9"), 7), 300);
        assert_eq!(peaks.of_next(job("other"), 7), 7);
    }

    #[test]
    fn what_runs_may_still_grow() {
        let mut peaks = Peaks::default();
        peaks.remember(job("train 1"), 100);
        let second = Duration::from_secs(1);
        assert_eq!(peaks.still_to_come(job("train 1"), 30, 30, second, 7), 70);
        // A program that frees memory may take it again.
        assert_eq!(peaks.still_to_come(job("train 1"), 30, 120, second, 7), 90);
        assert_eq!(peaks.still_to_come(job("other"), 30, 30, second, 50), 20);
        assert_eq!(peaks.still_to_come(job("other"), 40, 40, 20 * second, 500), 10);
    }
}
