//! What is played, as the environment has it.

use std::env;

use mgb_tests::generate::attack::Features;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}"))
    })
}

/// How many sources are played.
pub fn sources(default: u64) -> u64 {
    number("MGB_GENERATED_SOURCES", default)
}

/// The seed of the first source that attacks.
pub fn first() -> u64 {
    number("MGB_GENERATED_FIRST", 1)
}

/// The features that sources draw from, and their names as they were given.
pub fn features() -> (Features, String) {
    let text = env::var("MGB_GENERATED_FEATURES").unwrap_or_else(|_| "all".to_owned());
    let features = text
        .parse()
        .unwrap_or_else(|e| panic!("MGB_GENERATED_FEATURES: {e}"));
    (features, text)
}
