//! Processes that wait for each other, each with a task whose thread waits for another thread. Its launches are done,
//! and nobody has waited for them: that the task does not go on is known as soon as that is seen.

use std::path::Path;
use std::time::{Duration, Instant};

use mgb_tests::compiled;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::RunningProgram;

/// Less than mgbd waits for a process whose launches may be under way, and much more than this takes.
const SOON: Duration = Duration::from_secs(12);

#[test]
fn tasks_whose_launches_are_done_keep_nobody_waiting() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/stalled/stalled.cu");
    let program = compiled::program(&source, &["--offload-arch=sm_90", "-O1", "-std=c++17"]);
    let node = PrivateNode::start("1x64MiB", "mgb");
    let files = ["one", "other"].map(|name| node.folder().join(name));
    let began = Instant::now();
    let both = [[0, 1], [1, 0]].map(|order| {
        let mut command = node.command(&program, &[]);
        command
            .args(order.map(|at: usize| &files[at]))
            .env("MGB", "require");
        RunningProgram::start(&mut command)
    });
    for one in both {
        assert_eq!(one.end().success(), "right\n");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    node.wait_until_empty();
    assert!(node.view().counts.swapped_out > 0, "neither waited for the other");
}
