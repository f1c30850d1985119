//! Takes nvcc's command line apart.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};

use super::lists;
use super::table::{self, CLANGS, Fate, Meaning, NvccOption, SCCACHES, ValueStyle};
use crate::clang::response;

/// How deep option files may name others.
const DEEPEST: usize = 16;

/// One word or pair of words of the command line.
#[derive(Debug)]
pub enum OptionWord {
    /// Something to compile or link.
    Input(String),
    /// An option of the table, and its values: none, one, or a list.
    Option {
        /// As it was written, for messages.
        written: String,
        /// What it is.
        entry: &'static NvccOption,
        /// The values of the option.
        values: Vec<String>,
    },
    /// One that nvcc does not know, for clang.
    Unknown(String),
}

/// A whole command line.
#[derive(Debug, Default)]
pub struct NvccCommandLine {
    /// In the order given.
    pub given: Vec<OptionWord>,
}

impl NvccCommandLine {
    /// Takes `words` apart.
    ///
    /// # Errors
    /// On options that nvcc does not know, unless they are to be forwarded; on values that are missing or too
    /// many.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self> {
        let mut request = Self::default();
        request.take(words, DEEPEST)?;
        if !request.has(Meaning::Forward) {
            let unknown = request.given.iter().find_map(|given| match given {
                OptionWord::Unknown(word) if !is_clangs(word) => Some(word),
                _ => None,
            });
            if let Some(word) = unknown {
                bail!(
                    "{word} is not an option of nvcc; one for the host compiler goes behind -Xcompiler, one \
                     for the linker behind -Xlinker, or pass -forward-unknown-to-host-compiler"
                );
            }
        }
        Ok(request)
    }

    fn take(&mut self, words: impl IntoIterator<Item = OsString>, depth: usize) -> Result<()> {
        let mut words = words
            .into_iter()
            .map(|word| {
                word.into_string()
                    .map_err(|word| anyhow!("{} is not UTF-8; rename it", word.to_string_lossy()))
            })
            .collect::<Result<VecDeque<String>>>()?;
        while let Some(word) = words.pop_front() {
            if !word.starts_with('-') || word == "-" {
                self.given.push(OptionWord::Input(word));
                continue;
            }
            let Some((entry, joined)) = look_up(&word) else {
                self.given.push(OptionWord::Unknown(word));
                continue;
            };
            let value = match (entry.value, joined) {
                (ValueStyle::No, Some(value)) => bail!(
                    "{word}: --{} takes no value, so {value:?} is one too many",
                    entry.long
                ),
                (ValueStyle::No, None) => None,
                (_, Some(value)) => Some(value),
                (_, None) => Some(
                    words
                        .pop_front()
                        .with_context(|| format!("{word} needs a value"))?,
                ),
            };
            let values = match (entry.value, value) {
                (_, None) => Vec::new(),
                (_, Some(value)) if entry.splits_as_words() => lists::words(&value),
                (ValueStyle::List, Some(value)) => lists::values(&value),
                (_, Some(value)) => vec![value],
            };
            if entry.fate == Fate::Means(Meaning::OptionsFile) {
                for file in &values {
                    self.read(file, depth)?;
                }
                continue;
            }
            let written = word.split('=').next().unwrap_or(&word).to_owned();
            self.given.push(OptionWord::Option {
                written,
                entry,
                values,
            });
        }
        Ok(())
    }

    fn read(&mut self, file: &str, depth: usize) -> Result<()> {
        if depth == 0 {
            bail!("{file}: option files name each other more than {DEEPEST} deep");
        }
        let text = std::fs::read(file).with_context(|| format!("failed to read the options file {file}"))?;
        self.take(response::words(&text), depth - 1)
            .with_context(|| format!("in {file}"))
    }

    /// The values of all options with this meaning.
    pub fn values(&self, meaning: Meaning) -> impl Iterator<Item = &str> {
        self.given
            .iter()
            .flat_map(move |given| match given {
                OptionWord::Option { entry, values, .. } if entry.fate == Fate::Means(meaning) => {
                    values.as_slice()
                }
                _ => &[],
            })
            .map(String::as_str)
    }

    /// The last value of an option with this meaning.
    pub fn last(&self, meaning: Meaning) -> Option<&str> {
        self.values(meaning).last()
    }

    /// The value of a switch, if one is given.
    ///
    /// # Errors
    /// When it is neither `true` nor `false`.
    pub fn switch(&self, meaning: Meaning) -> Result<Option<bool>> {
        match self.last(meaning) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => bail!("{}={other}: true or false is needed", self.written(meaning)),
        }
    }

    /// Whether an option with this meaning is given.
    pub fn has(&self, meaning: Meaning) -> bool {
        !self.written(meaning).is_empty()
    }

    /// How the last option with this meaning was written; empty if there is none.
    pub fn written(&self, meaning: Meaning) -> &str {
        let of = |given: &'_ OptionWord| matches!(given, OptionWord::Option { entry, .. } if entry.fate == Fate::Means(meaning));
        match self.given.iter().rev().find(|given| of(given)) {
            Some(OptionWord::Option { written, .. }) => written,
            _ => "",
        }
    }

    /// What is to be compiled or linked.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.given.iter().filter_map(|given| match given {
            OptionWord::Input(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether an input has this file name.
    pub fn has_input_named(&self, name: &str) -> bool {
        self.inputs()
            .any(|input| Path::new(input).file_name().is_some_and(|file| file == name))
    }
}

/// Whether it is an option of clang's own that is taken.
fn is_clangs(word: &str) -> bool {
    CLANGS.contains(&word) || SCCACHES.contains(&word)
}

/// The option that `word` names, and the value joined to it.
fn look_up(word: &str) -> Option<(&'static NvccOption, Option<String>)> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (word, None),
    };
    if let Some(long) = name.strip_prefix("--") {
        return table::long(long).map(|entry| (entry, value));
    }
    if let Some(entry) = table::short(name.strip_prefix('-')?) {
        return Some((entry, value));
    }
    // Joined: one letter, and what follows it, an equals sign included.
    let mut letters = word[1..].chars();
    let letter = letters.next()?.to_string();
    let entry = table::short(&letter).filter(|entry| entry.value != ValueStyle::No)?;
    // nvcc would take -Ofast and -threads for these, and then miss a number.
    let joined = letters.as_str();
    let is_number = joined.bytes().all(|byte| byte.is_ascii_digit());
    let needs_number = matches!(entry.short, "O" | "t" | "m");
    (is_number || !needs_number && entry.short != "e").then(|| (entry, Some(joined.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NvccCommandLine> {
        NvccCommandLine::parse(shlex::split(text).unwrap().into_iter().map(OsString::from))
    }

    fn error(text: &str) -> String {
        format!("{:#}", parse(text).unwrap_err())
    }

    #[test]
    fn values_are_given_in_four_ways() {
        for text in ["-o x", "-o=x", "-ox", "--output-file x", "--output-file=x"] {
            assert_eq!(parse(text).unwrap().last(Meaning::Output), Some("x"), "{text}");
        }
        for text in ["-arch=sm_90", "-arch sm_90", "--gpu-architecture sm_90"] {
            assert_eq!(parse(text).unwrap().last(Meaning::Arch), Some("sm_90"), "{text}");
        }
        assert_eq!(parse("-O3").unwrap().last(Meaning::Optimize), Some("3"));
    }

    #[test]
    fn values_are_no_inputs() {
        let request = parse("-o b.cu -I c.cu a.cu -MF d.cu -ccbin e.cu -Xptxas f.cu").unwrap();
        assert_eq!(request.inputs().collect::<Vec<_>>(), ["a.cu"]);
    }

    #[test]
    fn what_nvcc_does_not_know() {
        assert!(error("-Wall a.cu").contains("-Wall is not an option of nvcc"));
        assert!(error("-archsm_90").contains("-archsm_90 is not an option"));
        assert!(error("-Ofast").contains("-Ofast is not an option"));
        assert!(
            error("--ccbin=x").contains("--ccbin is not an option")
                || error("--ccbin=x").contains("--ccbin=x")
        );
        assert!(error("a.cu -o").contains("-o needs a value"));
        assert!(error("-lineinfo=true").contains("takes no value"));
        assert!(parse("-forward-unknown-to-host-compiler -Wall a.cu").is_ok());
        assert!(parse("-fsyntax-only a.cu").is_ok());
    }

    #[test]
    fn option_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("options");
        std::fs::write(&file, "-O2 'my file.cu'\n-c").unwrap();
        let request = parse(&format!("--options-file {} -o x", file.display())).unwrap();
        assert_eq!(request.inputs().collect::<Vec<_>>(), ["my file.cu"]);
        assert_eq!(request.last(Meaning::Optimize), Some("2"));
        std::fs::write(&file, format!("-optf {}", file.display())).unwrap();
        assert!(error(&format!("-optf {}", file.display())).contains("name each other"));
        assert!(error("-optf /no/such/file").contains("failed to read the options file /no/such/file"));
    }
}
