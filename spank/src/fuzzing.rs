//! What the plugin reads, for the fuzzer.

use crate::answer::{self, Line};
use crate::options::Options;

/// Any text is what `mgb cluster prolog` says, and words of plugstack.conf.
pub fn plugin(text: &str) {
    for line in answer::lines(text) {
        if let Line::Export(name, _) | Line::Unset(name) = line {
            assert!(!name.is_empty() && !name.contains(['=', ' ']), "{name:?}");
        }
    }
    Options::read(text.split_whitespace());
}
