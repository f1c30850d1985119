//! Addresses that kernels keep: what launches of other tasks find in memory is there when they run.

use std::path::{Path, PathBuf};

use mgb_tests::node::Node;
use mgb_tests::prefix::bin;
use mgb_tests::process::{Ended, Running, command, run};

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

fn build(node: &Node, level: &str, assumed: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/published/addresses.cu");
    let program = node.folder().join(format!("addresses{level}{assumed}"));
    let mut compile = command(bin("mgb-clang++"), &["--offload-arch=sm_90", "-std=c++17", level]);
    compile
        .arg(source)
        .arg("-o")
        .arg(&program)
        .env("MGB_ASSUME", assumed);
    run(&mut compile).success();
    program
}

fn play(node: &Node, program: &Path, way: &str) -> Ended {
    let mut command = node.command(program, &[way]);
    Running::start(command.env("MGB", "require").env("MGB_EVICT_EVERY", "3")).end()
}

#[test]
fn what_is_kept_is_there_for_other_tasks() {
    let mut wrong = Vec::new();
    for gpus in ["1x64MiB", "2x64MiB"] {
        let node = Node::start(gpus, "mgb");
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
    let node = Node::start("1x64MiB", "mgb");
    let program = build(&node, "-O2", "escape");
    for way in WAYS {
        let mut runs = (0..20).map(|_| play(&node, &program, way));
        assert!(
            runs.any(|ended| ended.status.code() != Some(0)),
            "{way}: a launch never missed what was evicted"
        );
    }
}
