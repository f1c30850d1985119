//! What nvcc's command lines say to gcc and clang does not take, where clang is nvcc's host compiler: people
//! have written their makefiles with gcc in mind, and none of this changes what a program means.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Set where nvcc calls `mgb-clang++` as its host compiler.
pub const VARIABLE: &str = "MGB_HOST_OF_NVCC";

/// Options of gcc that clang refuses, by how they begin: they tune its optimiser, or say how it reports and
/// dumps.
const REFUSED: &[&str] = &[
    "-fabi-version=",
    "-fconcepts",
    "-fcrossjumping",
    "-fdelete-dead-exceptions",
    "-fdump-",
    "-fext-numeric-literals",
    "-fgraphite",
    "-fimplicit-constexpr",
    "-fipa-",
    "-fira-",
    "-floop-",
    "-fno-crossjumping",
    "-fno-diagnostics-show-caret",
    "-fno-enforce-eh-specs",
    "-fno-ext-numeric-literals",
    "-fno-gnu-unique",
    "-fno-ipa-",
    "-fno-ira-",
    "-fno-nonansi-builtins",
    "-fno-printf-return-value",
    "-fno-sched-",
    "-fno-tree-",
    "-fno-var-tracking",
    "-fno-weak",
    "-fopt-info",
    "-fsched-",
    "-ftrack-macro-expansion",
    "-ftree-",
    "-fvar-tracking",
    "-fvect-cost-model",
    "-mavx256-split-unaligned-",
    "-mveclibabi=",
];

/// clang takes these, and they mean something to it.
const TAKEN: &[&str] = &[
    "-ftree-vectorize",
    "-fno-tree-vectorize",
    "-ftree-slp-vectorize",
    "-fno-tree-slp-vectorize",
];

/// What keeps clang from complaining of what it ignores, under `-Werror` too.
const QUIET: [&str; 4] = [
    // An error in C++17 for clang; for gcc a warning.
    "-Wno-register",
    "-Wno-unknown-warning-option",
    "-Wno-ignored-optimization-argument",
    "-Wno-unused-command-line-argument",
];

/// The words for clang.
pub fn for_clang(words: Vec<OsString>) -> Vec<OsString> {
    let kept = words.into_iter().filter(|word| !is_refused(word));
    QUIET.iter().map(OsString::from).chain(kept).collect()
}

fn is_refused(word: &OsStr) -> bool {
    let word = word.as_bytes();
    REFUSED.iter().any(|start| word.starts_with(start.as_bytes()))
        && !TAKEN.iter().any(|taken| taken.as_bytes() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_gcc_knows_is_left_out() {
        let words = [
            "-O2",
            "-fno-tree-vectorize",
            "-fno-gnu-unique",
            "-fopt-info-vec",
            "a.cpp",
        ];
        let kept = for_clang(words.map(OsString::from).into());
        assert_eq!(
            kept[QUIET.len()..],
            ["-O2", "-fno-tree-vectorize", "a.cpp"].map(OsString::from)
        );
    }
}
