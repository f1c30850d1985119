//! Mutations of the pass: by `MGB_ASSUME` it takes for granted what it otherwise proves. Sources that attack the pass must
//! notice each of them: some source fails that is right where the pass proves it.
//!
//! `make mutation-test` plays sources until they do, and prints how many that took.

use std::env;

use mgb_tests::generate::attack::PROGRAMS;

use crate::arrangements::Nodes;
use crate::settings;
use crate::sources::Built;

/// What can be taken for granted, by its name, and the features that are about it, so that faults of others
/// are not taken for it.
const MUTATIONS: [(&str, &str); 2] = [
    ("escape", "publish,forget,readback,units"),
    ("loops", "growing,keeping"),
];

/// More sources than a mutation may need.
const MAX_SOURCES: u64 = 60;

#[test]
#[ignore = "a minute or more for each mutation: `make mutation-test` plays it"]
fn each_mutation_is_noticed() {
    let only = env::var("MGB_MUTATIONS").ok();
    let chosen = |name: &str| {
        only.as_ref()
            .is_none_or(|only| only.split(',').any(|one| one == name))
    };
    let nodes = Nodes::start();
    let mut unnoticed = Vec::new();
    for (name, features) in MUTATIONS.into_iter().filter(|(name, _)| chosen(name)) {
        match noticed_by(&nodes, name, features) {
            Some((sources, why)) => {
                println!("{name}: noticed by source {sources} of {PROGRAMS} programs: {why}");
            }
            None => unnoticed.push(name),
        }
    }
    assert!(
        unnoticed.is_empty(),
        "no source of {MAX_SOURCES} notices {unnoticed:?}"
    );
}

/// How many sources it took until one failed in an arrangement in which it is right without the mutation, and
/// how it failed.
fn noticed_by(nodes: &Nodes, name: &str, features: &str) -> Option<(u64, String)> {
    let features = features.parse().expect("these are features");
    let build = |seed, assume| {
        Built::new(nodes.folder(), seed, &features, assume).unwrap_or_else(|text| panic!("{text}"))
    };
    for (count, seed) in (settings::first()..).take(MAX_SOURCES as usize).enumerate() {
        let mutated = build(seed, Some(name));
        let played = nodes.play(&mutated);
        mutated.forget();
        if let Err(wrong) = played {
            let proven = build(seed, None);
            let is_right = nodes.is_right_in(&proven, wrong.arrangement);
            proven.forget();
            if is_right {
                return Some((count as u64 + 1, wrong.why));
            }
            println!(
                "{name}: source {seed} fails without it as well: {}",
                wrong.arrangement
            );
        }
    }
    None
}
