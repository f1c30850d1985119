//! The lines `//#Name: value` at the head of an example: what its tests expect. `examples/README.md` lists
//! the names.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::formula::{self, Values};

/// One way to run an example, and what it prints then.
#[derive(Debug, Clone, PartialEq)]
pub struct ExampleRun {
    /// The arguments with their names, in order.
    pub arguments: Vec<(String, String)>,
    /// Standard output, without the line's end.
    pub stdout: String,
}

impl ExampleRun {
    /// The command line: the values alone.
    pub fn command_line(&self) -> Vec<&str> {
        self.arguments.iter().map(|(_, value)| value.as_str()).collect()
    }

    /// The arguments that are numbers or sizes, in bytes, for formulas.
    pub fn values(&self) -> Values {
        self.arguments
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), size(value)?)))
            .collect()
    }
}

/// What the head of an example says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Directives {
    /// How to run it; empty for a program that tests do not run.
    pub cases: Vec<ExampleRun>,
    /// How many static tasks the pass finds.
    pub static_tasks: usize,
    /// The peak of each static task.
    pub peaks: Vec<String>,
    /// Reasons for which the pass must find something lazy, by code.
    pub lazy: Vec<String>,
    /// What the lazy runtime must have counted, if anything is lazy.
    pub record: Option<String>,
}

impl Directives {
    /// Reads the head of a source file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or a directive is none of the known ones.
    pub fn read(source: &Path) -> Result<Directives> {
        let text =
            fs::read_to_string(source).with_context(|| format!("failed to read {}", source.display()))?;
        parse(&text).with_context(|| format!("failed to read the directives of {}", source.display()))
    }

    /// The peaks of the static tasks for `case`, smallest first.
    ///
    /// # Errors
    ///
    /// When a formula cannot be evaluated.
    pub fn peaks_for(&self, case: &ExampleRun) -> Result<Vec<u64>> {
        let values = case.values();
        let mut peaks = Vec::new();
        for formula in &self.peaks {
            peaks.push(u64::try_from(formula::evaluate(formula, &values)?)?);
        }
        peaks.sort_unstable();
        Ok(peaks)
    }

    /// What the lazy runtime must have counted for `case`.
    ///
    /// # Errors
    ///
    /// When the formula cannot be evaluated.
    pub fn record_for(&self, case: &ExampleRun) -> Result<Option<u64>> {
        let Some(formula) = &self.record else {
            return Ok(None);
        };
        Ok(Some(u64::try_from(formula::evaluate(formula, &case.values())?)?))
    }
}

fn parse(text: &str) -> Result<Directives> {
    let mut directives = Directives::default();
    for line in text.lines() {
        let Some(line) = line.strip_prefix("//#") else {
            continue;
        };
        let (name, value) = line
            .split_once(':')
            .with_context(|| format!("'//#{line}' has no colon"))?;
        let value = value.trim();
        match name {
            "Args" => directives.cases.push(ExampleRun {
                arguments: arguments(value)?,
                stdout: String::new(),
            }),
            "Stdout" => {
                let case = directives
                    .cases
                    .last_mut()
                    .context("Stdout comes before any Args")?;
                case.stdout = value.to_owned();
            }
            "Static" => directives.static_tasks = value.parse().context("Static is no number")?,
            "Peak" => directives.peaks.push(value.to_owned()),
            "Lazy" => directives.lazy.push(value.to_owned()),
            "Record" => directives.record = Some(value.to_owned()),
            "Run" if value == "no" => {}
            _ => bail!("'//#{line}' is unknown"),
        }
    }
    Ok(directives)
}

fn arguments(text: &str) -> Result<Vec<(String, String)>> {
    text.split_whitespace()
        .map(|word| {
            let (name, value) = word
                .split_once('=')
                .with_context(|| format!("'{word}' is not name=value"))?;
            Ok((name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// A number such as `1000` or a size such as `2MiB`.
fn size(text: &str) -> Option<i128> {
    for (unit, scale) in [("KiB", 1i128 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)] {
        if let Some(number) = text.strip_suffix(unit) {
            return Some(number.parse::<i128>().ok()? * scale);
        }
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_example() {
        let directives = parse(
            "// Text.\n//#Args: n=10 size=2MiB kind=wait\n//#Stdout: x: n=10 PASS\n//#Static: 1\n//#Peak: 4 * n + size\n",
        )
        .unwrap();
        let case = &directives.cases[0];
        assert_eq!(case.command_line(), ["10", "2MiB", "wait"]);
        assert_eq!(case.stdout, "x: n=10 PASS");
        assert_eq!(directives.peaks_for(case).unwrap(), [40 + (2 << 20)]);
        assert_eq!(directives.record_for(case).unwrap(), None);
    }

    #[test]
    fn unknown_directives_are_errors() {
        assert!(parse("//#Static: one\n").is_err());
        assert!(parse("//#Statik: 1\n").is_err());
    }
}
