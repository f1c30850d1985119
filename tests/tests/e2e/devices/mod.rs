//! Programs with several devices, under MGB as natively.

use mgb_tests::node::Node;
use mgb_tests::prefix::{bin, repository};
use mgb_tests::process::run;

#[test]
fn handles_outlive_the_reset_of_another_device() {
    let node = Node::start("2x256MiB", "mgb");
    let source = repository().join("tests/tests/e2e/devices/handles.cu");
    let program = node.folder().join("handles");
    let mut compile = node.command(bin("mgb-clang++"), &["-o"]);
    run(compile.arg(&program).arg(source)).success();
    for mode in ["off", "require"] {
        let ended = run(node.command(&program, &[]).env("MGB", mode));
        assert_eq!(ended.success(), "PASS\n", "with MGB={mode}");
    }
}
