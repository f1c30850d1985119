//! Sources that attack the pass: what it proves of a program's objects is made as hard to see as CUDA allows.
//! A source holds a few programs, each a namespace, of which each draws its features (`features`). All of them
//! keep a model of their device memory beside it and compare both themselves (`tests/generated/attack.h`), so
//! a source needs no other program to say what is right.
//!
//! A program is a tree of blocks (`block`) on objects of `n` words. Each feature has a file with the statements
//! that it adds.

mod block;
mod coroutine;
mod failing;
mod features;
mod forget;
mod growing;
mod guarded;
mod hiding;
mod keeping;
mod many;
mod owners;
mod pipeline;
mod program;
mod publish;
mod readback;
mod recursion;
mod text;
mod threads;
mod throwing;
mod units;

use std::fmt::Write;

use super::draw::Draw;
pub use features::{ALL, Feature, Features};
use program::AttackProgram;

/// Programs of one source: most of a compile's time is CUDA's headers.
pub const PROGRAMS: u64 = 8;

/// A source: its file, and a second one that some sources have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttackSource {
    /// The text of the file with `main`.
    pub main: String,
    /// The text of the other file.
    pub other: Option<String>,
    /// The features of each program.
    pub features: Vec<Features>,
}

/// The source of a seed.
pub fn source(seed: u64, features: &Features) -> AttackSource {
    let head =
        format!("// Generated from seed {seed}; see tests/src/generate/attack.\n#include \"attack.h\"\n\n");
    let (mut main, mut other) = (head.clone(), String::new());
    let mut all = Vec::new();
    for number in 0..PROGRAMS {
        // Other numbers than those of the sources without attacks.
        let program = AttackProgram::new(Draw::new((seed * PROGRAMS + number) ^ 0xa77a_c400_0000), features);
        all.push(program.features.clone());
        let (own, second) = program.texts();
        let _ = write!(main, "namespace p{number} {{\n{own}}} // namespace p{number}\n\n");
        if !second.is_empty() {
            let _ = write!(
                other,
                "namespace p{number} {{\n{second}}} // namespace p{number}\n\n"
            );
        }
    }
    let names: Vec<String> = (0..PROGRAMS).map(|number| format!("p{number}::run")).collect();
    let _ = write!(
        main,
        "static unsigned (*const programs[])() = {{{}}};\n\nint main(int argc, char **argv) {{ return play(argc, argv, programs); }}\n",
        names.join(", ")
    );
    let other = (!other.is_empty()).then(|| head + &other);
    AttackSource {
        main,
        other,
        features: all,
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Features, source};

    #[test]
    fn a_seed_is_always_the_same_source() {
        let all = Features::all();
        assert_eq!(source(7, &all), source(7, &all));
        assert_ne!(source(7, &all), source(8, &all));
    }

    #[test]
    fn braces_close() {
        for seed in 0..200 {
            let source = source(seed, &Features::all());
            for text in [Some(source.main), source.other].into_iter().flatten() {
                let count = |c| text.matches(c).count();
                assert_eq!(count('{'), count('}'), "seed {seed}");
            }
        }
    }

    #[test]
    fn each_feature_is_drawn_and_can_be_left_out() {
        let all = Features::all();
        for (feature, name) in ALL {
            let with = (0..40).filter(|seed| source(*seed, &all).features.iter().any(|own| own.has(feature)));
            assert!(with.count() > 10, "{name}");
            let without: Features = format!("all,-{name}").parse().expect("features");
            assert!(!without.has(feature));
            assert!((0..40).all(|seed| !source(seed, &without).features.iter().any(|own| own.has(feature))));
        }
        assert!("all,nothing".parse::<Features>().is_err());
    }
}
