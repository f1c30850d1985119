//! Addresses that kernels keep: what launches of other tasks find in memory is there when they run.

use std::path::PathBuf;

use mgb_tests::node::PrivateNode;

use crate::assumed::{self, play};

/// The ways to keep an address that the program knows.
const WAYS: [&str; 7] = [
    "variable",
    "memory",
    "structure",
    "function",
    "atomic",
    "assembly",
    "list",
];

/// The program, with these proofs taken for granted.
fn build(node: &PrivateNode, level: &str, assumed: &str) -> PathBuf {
    assumed::build(node, "published/addresses.cu", level, assumed)
}

#[test]
fn what_is_kept_is_there_for_other_tasks() {
    let mut wrong = Vec::new();
    for gpus in ["1x64MiB", "2x64MiB"] {
        let node = PrivateNode::start(gpus, "mgb");
        for level in ["-O0", "-O2"] {
            let program = build(&node, level, "");
            for way in WAYS {
                let ended = play(&node, &program, way);
                if ended.status.code() != Some(0) {
                    wrong.push(format!(
                        "{way} {level} on {gpus}: {}{}",
                        ended.stdout, ended.stderr
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The test above would notice if the pass proved nothing: each way fails at least once in a few runs.
#[test]
fn without_the_proof_it_faults() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = build(&node, "-O2", "escape");
    for way in WAYS {
        let mut runs = (0..20).map(|_| play(&node, &program, way));
        assert!(
            runs.any(|ended| ended.status.code() != Some(0)),
            "{way}: a launch never missed what was evicted"
        );
    }
}
