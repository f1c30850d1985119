//! Takes clang's command line apart, just far enough to know what it asks for.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::language::Language;
use super::table::{self, Meaning};

/// One argument: an option with its value, or an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The word of the option.
    pub word: OsString,
    /// Its value, where that is a word of its own.
    pub value: Option<OsString>,
    /// What it means.
    pub kind: ArgumentKind,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// Something to compile or to link.
    Input(Language),
    /// An option that the tables know.
    Known(Meaning),
    /// An option that only clang knows.
    Other,
}

/// A whole command line.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    /// In the order given.
    pub arguments: Vec<Argument>,
}

impl CommandLine {
    /// Takes `words`, response files already expanded, apart.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Self {
        let mut words = words.into_iter();
        let mut arguments = Vec::new();
        let mut language = None;
        let mut only_inputs = false;
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            if only_inputs || !bytes.starts_with(b"-") || bytes == b"-" {
                let kind = ArgumentKind::Input(language.unwrap_or_else(|| Language::of_file(bytes)));
                // clang would take an input that follows our own options for one of them.
                let word = if only_inputs && bytes.starts_with(b"-") {
                    dotted(&word)
                } else {
                    word
                };
                arguments.push(Argument {
                    word,
                    value: None,
                    kind,
                });
                continue;
            }
            if bytes == b"--" {
                only_inputs = true;
                continue;
            }
            let whole = table::exact(bytes);
            let value = whole
                .filter(|meaning| meaning.takes_value())
                .and_then(|_| words.next());
            let joined = if whole.is_none() {
                table::prefix(bytes)
            } else {
                None
            };
            let meaning = whole.or(joined.map(|(meaning, _)| meaning));
            if meaning == Some(Meaning::Language) {
                let named = value
                    .as_deref()
                    .map(OsStr::as_bytes)
                    .or(joined.map(|(_, value)| value));
                language = named.and_then(Language::of_option);
            }
            arguments.push(Argument {
                kind: meaning.map_or(ArgumentKind::Other, ArgumentKind::Known),
                word,
                value,
            });
        }
        Self { arguments }
    }

    /// Adds an argument behind all others.
    pub fn add(&mut self, word: impl Into<OsString>, kind: ArgumentKind) {
        self.arguments.push(Argument {
            word: word.into(),
            value: None,
            kind,
        });
    }

    /// Whether an option with this meaning is given.
    pub fn has(&self, meaning: Meaning) -> bool {
        self.arguments
            .iter()
            .any(|argument| argument.kind == ArgumentKind::Known(meaning))
    }

    /// Whether an input in this language is given.
    pub fn has_input(&self, language: Language) -> bool {
        self.arguments
            .iter()
            .any(|argument| argument.kind == ArgumentKind::Input(language))
    }

    /// Whether C, C++ or CUDA goes through the front end.
    pub fn compiles(&self) -> bool {
        [Language::Cuda, Language::Host, Language::Header]
            .into_iter()
            .any(|language| self.has_input(language))
    }

    /// Whether code is generated from it, so that the pass runs.
    pub fn generates_code(&self) -> bool {
        let sources = self.has_input(Language::Cuda) || self.has_input(Language::Host);
        sources && !self.has(Meaning::FrontEnd)
    }

    /// Whether a program or a shared library is made.
    pub fn links(&self) -> bool {
        let stops = [Meaning::FrontEnd, Meaning::NoLink, Meaning::Relocatable];
        let is_linked = |argument: &Argument| match argument.kind {
            ArgumentKind::Input(language) => language != Language::Header,
            _ => false,
        };
        self.arguments.iter().any(is_linked) && !stops.into_iter().any(|stop| self.has(stop))
    }

    /// The last value joined to an option with this meaning.
    pub fn joined(&self, meaning: Meaning) -> Option<&OsStr> {
        let of = |argument: &'_ Argument| argument.kind == ArgumentKind::Known(meaning);
        let word = &self.arguments.iter().rev().find(|argument| of(argument))?.word;
        table::prefix(word.as_bytes()).map(|(_, value)| OsStr::from_bytes(value))
    }
}

fn dotted(word: &OsStr) -> OsString {
    let mut path = OsString::from("./");
    path.push(word);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> CommandLine {
        CommandLine::parse(text.split_whitespace().map(OsString::from))
    }

    fn inputs(text: &str) -> Vec<(String, Language)> {
        let of = |argument: &Argument| match argument.kind {
            ArgumentKind::Input(language) => Some((argument.word.to_string_lossy().into_owned(), language)),
            _ => None,
        };
        line(text).arguments.iter().filter_map(of).collect()
    }

    #[test]
    fn values_are_no_inputs() {
        let expected = [("a.cu".to_owned(), Language::Cuda)];
        assert_eq!(
            inputs("-o b.cu -I c.cu -MF d.cu -Xclang e.cu a.cu -include f.cu"),
            expected
        );
    }

    #[test]
    fn x_counts_for_what_follows() {
        let found = inputs("a.cpp -x cuda b.cpp -xc++ c.cu -x none d.cu e.o");
        let languages: Vec<_> = found.into_iter().map(|(_, language)| language).collect();
        use Language::*;
        assert_eq!(languages, [Host, Cuda, Host, Cuda, Linked]);
    }

    #[test]
    fn steps_are_told_apart() {
        assert!(line("a.cu").links() && line("a.cu").generates_code());
        assert!(!line("-c a.cu").links() && line("-c a.cu").generates_code());
        assert!(!line("-fsyntax-only a.cu").generates_code());
        assert!(line("a.o b.o -lm").links() && !line("a.o").compiles());
        assert!(!line("-r a.o b.o").links());
        assert!(!line("--version").links() && !line("-v").links());
        assert!(!line("all.h").links() && !line("-x c++-header all.hpp").generates_code());
        assert!(!line("-E a.cu").links());
    }

    #[test]
    fn after_two_dashes_all_are_inputs() {
        assert_eq!(
            inputs("-c -- -odd.cu"),
            [("./-odd.cu".to_owned(), Language::Cuda)]
        );
    }
}
