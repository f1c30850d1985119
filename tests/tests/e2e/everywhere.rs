//! One program in every arrangement: without MGB, with it, and with memory that leaves its GPU all the time, on
//! one GPU and on two.

use std::path::Path;

use mgb_tests::node::PrivateNode;
use mgb_tests::process::RunningProgram;

/// The software GPUs, and a variable that the program gets.
const ARRANGEMENTS: [(&str, &str, &str); 4] = [
    ("1x64MiB", "MGB", "off"),
    ("1x64MiB", "MGB", "require"),
    ("1x64MiB", "MGB_EVICT_EVERY", "2"),
    ("2x64MiB", "MGB_EVICT_EVERY", "2"),
];

/// Plays a program with these arguments; it ends with success, and leaves nothing in the ledger.
#[track_caller]
pub fn is_right(program: &Path, arguments: &[&str]) {
    for (devices, name, value) in ARRANGEMENTS {
        let node = PrivateNode::start(devices, "mgb");
        let mut command = node.command(program, arguments);
        let ended = RunningProgram::start(command.env(name, value)).end();
        let what = program.display();
        assert_eq!(
            ended.code(),
            0,
            "{what} {arguments:?} {devices} {name}={value}: {ended:?}"
        );
        node.wait_until_empty();
    }
}
