//! Preprocessed CUDA (`-E`): the text of both compilations, host and device.
//!
//! By itself clang prints the host's alone. Caches before the compiler (ccache, sccache) take the printed
//! text for all that a compile depends on, and would answer an edit that only device code sees with the
//! object of before it.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};

use super::language::Language;
use super::parse::{Argument, ArgumentKind, CommandLine};
use super::table::Meaning;

/// clang's older offloading driver preprocesses for the host and for each GPU, and writes one text after the
/// other. The newer one keeps what is for GPUs to itself.
const ONE_AFTER_THE_OTHER: &str = "--no-offload-new-driver";

/// Whether CUDA is compiled for the host and for GPUs, and not for one of them only.
pub fn has_both_sides(line: &CommandLine) -> bool {
    let chosen = line
        .arguments
        .iter()
        .rev()
        .find_map(|one| match one.word.as_encoded_bytes() {
            b"--cuda-host-only"
            | b"--offload-host-only"
            | b"--cuda-device-only"
            | b"--offload-device-only" => Some(false),
            b"--cuda-compile-host-device" | b"--offload-host-device" => Some(true),
            _ => None,
        });
    line.has_input(Language::Cuda) && chosen.unwrap_or(true)
}

/// Whether CUDA is preprocessed, for both sides. A list of macros (`-dM`) stays the host's.
pub fn is_wanted(line: &CommandLine) -> bool {
    let is = |words: &[&str]| {
        line.arguments
            .iter()
            .any(|one| words.iter().any(|word| one.word == *word))
    };
    has_both_sides(line) && is(&["-E", "--preprocess"]) && !is(&["-dM", "-M", "-MM", "-fsyntax-only"])
}

/// Has clang print both texts to its standard output; the file that was to get them, where one is named.
///
/// # Errors
/// When that file cannot be written.
pub fn print_both(line: &mut CommandLine) -> Result<Option<File>> {
    line.add(ONE_AFTER_THE_OTHER, ArgumentKind::Other);
    // Each text would replace the one before it in a file that clang opens itself.
    let Some(output) = take_output(line).filter(|output| output != "-") else {
        return Ok(None);
    };
    let file = File::create(Path::new(&output))
        .with_context(|| format!("failed to write {}", output.to_string_lossy()))?;
    Ok(Some(file))
}

/// Takes `-o` off a command line, with its value.
pub fn take_output(line: &mut CommandLine) -> Option<OsString> {
    let mut output = None;
    line.arguments.retain(|one| match output_of(one) {
        Some(value) => {
            output = Some(value);
            false
        }
        None => true,
    });
    output
}

/// The output that an argument names.
pub fn output_of(one: &Argument) -> Option<OsString> {
    if one.word == "-o" || one.word == "--output" {
        return one.value.clone();
    }
    let is_option = matches!(
        one.kind,
        ArgumentKind::Other | ArgumentKind::Known(Meaning::Value)
    );
    let word = one.word.to_str().filter(|_| is_option)?;
    let joined = word.strip_prefix("--output=").or_else(|| {
        // clang has longer options that begin so.
        let is_another = word.starts_with("-objc") || word.starts_with("-object");
        word.strip_prefix("-o").filter(|_| !is_another)
    })?;
    Some(joined.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> CommandLine {
        CommandLine::parse(text.split_whitespace().map(OsString::from))
    }

    #[test]
    fn only_cuda_for_both_sides_is_printed_twice() {
        let wanted = |text: &str| is_wanted(&line(text));
        assert!(wanted("-E a.cu") && wanted("-x cuda -E -P a.cpp") && wanted("--preprocess a.cu"));
        assert!(!wanted("-E a.cpp") && !wanted("-c a.cu") && !wanted("-E -dM a.cu"));
        assert!(!wanted("-E --cuda-device-only a.cu") && !wanted("-E --offload-host-only a.cu"));
        assert!(wanted("-E --cuda-host-only --cuda-compile-host-device a.cu"));
    }

    #[test]
    fn the_output_is_taken_however_it_is_written() {
        for text in [
            "-E -o x.i a.cu",
            "-E -ox.i a.cu",
            "-E --output=x.i a.cu",
            "--output x.i -E a.cu",
            "-o y -E a.cu -o x.i",
        ] {
            let mut line = line(text);
            assert_eq!(take_output(&mut line), Some("x.i".into()), "{text}");
            assert_eq!(take_output(&mut line), None, "{text}");
        }
        assert_eq!(take_output(&mut line("-E -objcmt-migrate-all a.cu")), None);
    }
}
