//! Signals to programs that wait for room, and threads that are cancelled there.

mod common;

use std::path::Path;

use mgb_probe::view::{TaskState, TaskView};
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::process::Signal;

use common::{folder, on, program};

/// Another program has 40 of 64 MiB for so many milliseconds.
fn holder(node: &PrivateNode, folder: &Path, milliseconds: &str) -> RunningProgram {
    let holds = program("holds.c", folder);
    let other =
        RunningProgram::start(on(node, &holds, &["alloc", "1", "40", milliseconds]).env("MGB", "require"));
    wait::until("the other has its memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
    other
}

fn waits_on(node: &PrivateNode, program: &RunningProgram) {
    wait::until("the program waits for room", || {
        let view = node.view();
        let waits = |task: &TaskView| task.pid == program.pid() && task.state == TaskState::Growing;
        view.tasks.iter().any(waits).then_some(())
    });
}

/// A signal that asks a program to end ends its wait as well, where the program handles it: the handler has
/// run, and the allocation is refused. Other signals are handled and end nothing.
#[test]
fn a_signal_ends_the_wait_of_a_program_that_handles_it() {
    let folder = folder("signals");
    let waits = program("waits.c", &folder);
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    node.start_mgbd_with("mgb", &["--no-swap"]);
    let mut other = holder(&node, &folder, "60000");
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        let waiting = RunningProgram::start(on(&node, &waits, &["40"]).env("MGB", "require"));
        waits_on(&node, &waiting);
        waiting.signal(Signal::USR1);
        waiting.signal(signal);
        let ended = waiting.end();
        let said = format!("allocation 2, signal {number}, user's 1\nPASS\n");
        assert_eq!((ended.code(), ended.stdout), (0, said), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("while it waited for room"),
            "{}",
            ended.stderr
        );
        assert!(other.runs(), "it waited for the other");
    }
    drop(other);
    let other = holder(&node, &folder, "2000");
    let waiting = RunningProgram::start(on(&node, &waits, &["40"]).env("MGB", "require"));
    waits_on(&node, &waiting);
    waiting.signal(Signal::USR1);
    let ended = waiting.end();
    assert_eq!(
        ended.stdout, "allocation 0, signal 0, user's 1\nPASS\n",
        "{ended:?}"
    );
    assert_eq!(other.end().code(), 0);
    node.wait_until_empty();
}

/// Ctrl-C ends a Python program that waits, as it ends one that computes.
#[test]
fn ctrl_c_ends_a_python_program_that_waits() {
    let folder = folder("signals-python");
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    node.start_mgbd_with("mgb", &["--no-swap"]);
    let mut other = holder(&node, &folder, "60000");
    let script = common::source("waits.py").display().to_string();
    let waiting =
        RunningProgram::start(on(&node, Path::new("python3"), &[&script, "40"]).env("MGB", "require"));
    waits_on(&node, &waiting);
    waiting.signal(Signal::INT);
    let ended = waiting.end();
    assert_eq!(
        (ended.code(), ended.stdout.as_str()),
        (0, "interrupted\n"),
        "{ended:?}"
    );
    assert!(other.runs(), "it waited for the other");
}

/// A thread that is cancelled while it waits ends once it is served; the process goes on.
#[test]
fn a_thread_that_waits_is_cancelled_after_the_call() {
    let folder = folder("cancelled");
    let cancelled = program("cancelled.c", &folder);
    let node = PrivateNode::start("1x64MiB", "mgb");
    let other = holder(&node, &folder, "1500");
    let ended = run(on(&node, &cancelled, &["40"]).env("MGB", "require"));
    assert_eq!(
        (ended.code(), ended.stdout.as_str()),
        (0, "cancelled\nPASS\n"),
        "{ended:?}"
    );
    assert_eq!(other.end().code(), 0);
    node.wait_until_empty();
}
