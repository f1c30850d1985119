//! Sources drawn from seeds: CUDA programs of random structure, for the wrapper and the pass. A source holds
//! a few programs, each a namespace; it takes the number of one, or runs all, and prints a checksum for each.
//!
//! What the checksums must be is said by the same source compiled with `ON_HOST`, where kernels are loops
//! (`tests/generated/program.h`). So nothing here needs to know what a program computes, only that it
//! computes the same at every run: every word is written before it is read, and no two threads of a launch
//! touch the same one.

pub mod attack;
pub mod draw;
mod functions;
mod kernels;
mod statements;

use std::fmt::Write;

use draw::Draw;
use functions::ProgramDraft;

/// Programs of one source: most of a compile's time is CUDA's headers.
pub const PROGRAMS: u64 = 5;

/// The source of a seed.
pub fn source(seed: u64) -> String {
    let mut text =
        format!("// Generated from seed {seed}; see tests/src/generate.\n#include \"program.h\"\n\n");
    for number in 0..PROGRAMS {
        let program = ProgramDraft::new(Draw::new(seed * PROGRAMS + number)).text();
        let _ = write!(
            text,
            "namespace p{number} {{\n{program}}} // namespace p{number}\n\n"
        );
    }
    text.push_str("int main(int argc, char **argv) {\n  int which = argc > 1 ? atoi(argv[1]) : -1;\n");
    for number in 0..PROGRAMS {
        let _ = writeln!(
            text,
            "  if (which < 0 || which == {number})\n    printf(\"p{number} %08x\\n\", p{number}::run());"
        );
    }
    text.push_str("  return 0;\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::source;

    #[test]
    fn a_seed_is_always_the_same_source() {
        assert_eq!(source(7), source(7));
        assert_ne!(source(7), source(8));
    }

    #[test]
    fn braces_close() {
        for seed in 0..50 {
            let text = source(seed);
            let count = |c| text.matches(c).count();
            assert_eq!(count('{'), count('}'), "seed {seed}");
        }
    }
}
