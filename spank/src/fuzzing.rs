//! What the plugin reads, for the fuzzer.

use crate::answer::{self, AnswerLine};
use crate::options::Options;

/// Any text is what `mgb cluster prolog` says, and words of plugstack.conf.
pub fn plugin(text: &str) {
    for line in answer::lines(text) {
        if let AnswerLine::Export(name, _) | AnswerLine::Unset(name) = line {
            assert!(!name.is_empty() && !name.contains(['=', ' ']), "{name:?}");
        }
    }
    Options::read(text.split_whitespace());
}
