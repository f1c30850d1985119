//! A size is not read at a task's begin if the program guards its read by a call: the program then ends as it
//! does natively, and not by a signal.

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, repository};
use mgb_tests::process::run;

/// The case, and what the program prints and ends with.
const CASES: [(&str, &str, i32); 6] = [
    ("pointer", "PASS\n", 0),
    ("null-pointer", "no configuration\n", 3),
    ("set-later", "PASS\n", 0),
    ("index-later", "PASS\n", 0),
    ("divisor", "PASS\n", 0),
    ("no-divisor", "no parts\n", 4),
];

#[test]
fn without_optimisation() {
    every_case("-O0");
}

#[test]
fn with_optimisation() {
    every_case("-O2");
}

fn every_case(level: &str) {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let folder = repository().join("tests/tests/e2e/guards");
    let program = node.folder().join("guards");
    let mut compile = node.command(bin("mgb-clang++"), &[level, "-o"]);
    compile
        .arg(&program)
        .args(["guards.cu", "checks.cpp"].map(|name| folder.join(name)));
    run(&mut compile).success();
    for (case, output, code) in CASES {
        for mode in ["off", "require"] {
            let ended = run(node.command(&program, &[case]).env("MGB", mode));
            let was = (ended.stdout.as_str(), ended.code());
            assert_eq!(
                was,
                (output, code),
                "{case} {level} with MGB={mode}: {}",
                ended.stderr
            );
        }
    }
}
