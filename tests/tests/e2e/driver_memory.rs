//! Memory that the driver takes at a first use, on a GPU that programs have filled: the use waits for room like any
//! growth, instead of failing.

use std::path::Path;

use mgb_tests::compiled;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::RunningProgram;

/// Six programs of 20 MiB at once on 64 MiB, none of which has run before, so that nothing is known of what the
/// driver takes for each.
fn six(how: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/driver_memory/variables.cu");
    let program = compiled::program(&source, &["-O2", "--offload-arch=sm_90"]);
    let node = PrivateNode::start("1x64MiB", "mgb");
    let start = || {
        let mut command = node.command(&program, &["20", "30", how]);
        RunningProgram::start(command.env("MGB", "require"))
    };
    let all: Vec<RunningProgram> = (0..6).map(|_| start()).collect();
    for running in all {
        let ended = running.end();
        assert!(ended.stdout == "variables: 30 30\n", "{ended:?}");
    }
    node.wait_until_empty();
}

#[test]
fn first_launches_wait_for_room() {
    six("launch");
}

#[test]
fn first_copies_to_variables_wait_for_room() {
    six("copy");
}
