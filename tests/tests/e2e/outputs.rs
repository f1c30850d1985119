//! Every example prints the same and succeeds: under MGB, with `MGB=off`, and with no mgbd at all.

use mgb_tests::built::{self, examples};
use mgb_tests::node::PrivateNode;
use mgb_tests::process::run;
use mgb_tests::trace;

/// Runs every case of every example and compares what it prints. `prepare` makes the command of a program.
fn every_example(mut prepare: impl FnMut(&str, &[&str]) -> std::process::Command) {
    let folder = built::at("-O1");
    for example in examples() {
        let program = folder.join(&example.name);
        let program = program.to_str().expect("paths of tests are UTF-8");
        for case in &example.directives.cases {
            let ended = run(&mut prepare(program, &case.command_line()));
            assert_eq!(
                ended.stdout.trim_end(),
                case.stdout,
                "{}: {}",
                example.name,
                ended.stderr
            );
            ended.success();
        }
    }
}

#[test]
fn under_mgb() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    every_example(|program, arguments| {
        let mut words = vec!["run", program];
        words.extend(arguments);
        node.mgb(&words)
    });
    node.wait_until_empty();
}

#[test]
fn with_all_tasks_lazy() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let file = node.folder().join("trace");
    every_example(|program, arguments| {
        let mut command = node.command(program, arguments);
        command.env("MGB_STATIC", "off").env("MGB_TRACE", &file);
        command
    });
    let processes = trace::read(&file).expect("the trace can be read");
    let mut tasks = processes.iter().flat_map(|process| &process.tasks).peekable();
    assert!(tasks.peek().is_some());
    assert!(tasks.all(|task| task.lazy));
    node.wait_until_empty();
}

#[test]
fn off() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    every_example(|program, arguments| {
        let mut command = node.command(program, arguments);
        command.env("MGB", "off");
        command
    });
}

#[test]
fn without_mgbd() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    every_example(|program, arguments| node.command(program, arguments));
}
