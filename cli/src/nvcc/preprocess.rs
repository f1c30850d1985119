//! `--keep-nvcc -E`: what nvcc prints, and the host's text behind it.
//!
//! nvcc prints the text of each GPU's compilation alone. To a cache before the compiler an edit that only
//! host code sees would be none.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use mgb_command::exit::{self, CommandResult, WithCode};

use super::keep;
use crate::clang;

/// Has nvcc's preprocessor see a source as its host compiler will: nvcc defines the macro, and puts this
/// behind it.
const FOR_THE_HOST: [&str; 2] = ["-Xcompiler", "-U__CUDA_ARCH__"];

/// Whether a source is preprocessed.
pub fn is_wanted(words: &[OsString]) -> bool {
    let has = |options: &[&str]| {
        words
            .iter()
            .any(|word| options.iter().any(|option| word == option))
    };
    has(&["-E", "--preprocess"]) && !has(&["-dryrun", "--dryrun", "-h", "--help"])
}

/// Runs nvcc for the GPUs' texts, then for the host's.
pub fn run(words: Vec<OsString>) -> CommandResult {
    let first = keep::command(words.clone()).code(exit::NODE)?;
    let first = wait(first).code(exit::NODE)?;
    if first != exit::OK {
        return Ok(first);
    }
    let (mut words, output) = without_output(words);
    words.extend(FOR_THE_HOST.map(OsString::from));
    let mut second = keep::command(words).code(exit::NODE)?;
    let host = clang::output(&mut second)
        .context("failed to run NVIDIA's nvcc")
        .code(exit::NODE)?;
    append(&host.stdout, output).code(exit::NODE)?;
    if !host.status.success() {
        // What it says has been said by the first run, but for what only the host's text has.
        let _ = io::stderr().write_all(&host.stderr);
    }
    Ok(clang::exit_as(host.status))
}

fn wait(mut nvcc: std::process::Command) -> Result<u8> {
    let status = nvcc.status().context("failed to run NVIDIA's nvcc")?;
    Ok(clang::exit_as(status))
}

fn append(text: &[u8], output: Option<PathBuf>) -> Result<()> {
    let Some(file) = output else {
        return io::stdout()
            .write_all(text)
            .context("failed to print the host's text");
    };
    let opened = OpenOptions::new().append(true).create(true).open(&file);
    opened
        .and_then(|mut opened| opened.write_all(text))
        .with_context(|| format!("failed to write {}", file.display()))
}

/// The words without the output, and the output.
fn without_output(words: Vec<OsString>) -> (Vec<OsString>, Option<PathBuf>) {
    let mut kept = Vec::new();
    let mut output = None;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"-o" | b"--output-file" => output = words.next(),
            bytes => {
                let joined = [&b"-o="[..], b"--output-file="]
                    .into_iter()
                    .find_map(|name| bytes.strip_prefix(name));
                match joined {
                    Some(file) => output = Some(std::ffi::OsStr::from_bytes(file).to_owned()),
                    None => kept.push(word),
                }
            }
        }
    }
    (kept, output.map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_output_is_told_from_the_rest() {
        for text in ["-E -o x.i a.cu", "-E a.cu --output-file=x.i", "-E -o=x.i a.cu"] {
            let (kept, output) = without_output(words(text));
            assert_eq!((kept, output), (words("-E a.cu"), Some("x.i".into())), "{text}");
        }
        assert!(is_wanted(&words("-E a.cu")) && !is_wanted(&words("-c a.cu")));
        assert!(!is_wanted(&words("-dryrun -E a.cu")));
    }
}
