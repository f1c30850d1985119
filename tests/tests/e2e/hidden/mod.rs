//! Addresses that the host hides from its types: a launch that is given one as a number finds the object
//! there.

use std::path::PathBuf;

use mgb_tests::node::PrivateNode;

use crate::assumed::{self, play};

/// The ways to hide an address that the program knows.
const WAYS: [&str; 12] = [
    "union",
    "bytes",
    "structure",
    "word",
    "heap",
    "array",
    "direct",
    "cooperative",
    "configured",
    "distance",
    "quarters",
    "text",
];
/// Those of them that other rules catch as well.
const SEEN_ANYWAY: [&str; 2] = ["heap", "text"];

/// The program, with these proofs taken for granted.
fn build(node: &PrivateNode, level: &str, assumed: &str) -> PathBuf {
    assumed::build(node, "hidden/hidden.cu", level, assumed)
}

#[test]
fn launches_find_what_they_are_given_as_numbers() {
    let mut wrong = Vec::new();
    for gpus in ["1x64MiB", "2x64MiB"] {
        let node = PrivateNode::start(gpus, "mgb");
        for level in ["-O0", "-O2"] {
            let program = build(&node, level, "");
            for way in WAYS {
                let ended = play(&node, &program, way);
                if ended.status.code() != Some(0) {
                    let printed = ended.stdout + &ended.stderr;
                    wrong.push(format!("{way} {level} on {gpus}: {printed}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The test above would notice if the pass proved nothing: each way fails at least once in a few runs.
#[test]
fn without_the_proof_launches_fault() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = build(&node, "-O2", "numbers");
    for way in WAYS.into_iter().filter(|way| !SEEN_ANYWAY.contains(way)) {
        let mut runs = (0..20).map(|_| play(&node, &program, way));
        assert!(
            runs.any(|ended| ended.status.code() != Some(0)),
            "{way}: a launch never missed what was evicted"
        );
    }
}
