//! Threads of a program that allocate at the same time, and allocations that can never be: under the front, on software
//! GPUs.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use mgb_tests::node::PrivateNode;
use mgb_tests::process::RunningProgram;
use mgb_tests::wait;

use common::{folder, on, program, view};

/// Plays a way of `contends.c` on a node: then nothing is charged any more, while the program lives.
fn contends(node: &PrivateNode, way: &str) {
    let contends = program("contends.c", &folder(way));
    let mut command = on(node, &contends, &[way]);
    if way == "own" {
        command.env("MGB_ARENA", "off");
    }
    command
        .env("MGB", "require")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let pid = child.id();
    let mut said = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut line = || said.next().map(|line| line.expect("text"));
    assert_eq!(line().as_deref(), Some("done"));
    wait::until("all is given back", || {
        let view = view(node);
        let mut own = view.tasks.iter().filter(|task| task.pid == pid);
        own.all(|task| (task.reserved_bytes, task.held_bytes) == (0, 0))
            .then_some(())
    });
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(b"\n")
        .expect("it reads");
    assert_eq!(line().as_deref(), Some("PASS"));
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_request_that_is_too_large_is_refused_alone() {
    contends(&PrivateNode::start("1x64MiB", "mgb"), "refused");
}

#[test]
fn small_allocations_at_once_leave_no_granule_behind() {
    contends(&PrivateNode::start("1x64MiB", "mgb"), "small");
}

#[test]
fn memory_is_freed_once_in_the_order_of_a_stream() {
    contends(&PrivateNode::start("1x64MiB", "mgb"), "twice");
}

#[test]
fn a_pool_that_ends_under_an_allocation_leaves_no_charge() {
    contends(&PrivateNode::start("1x64MiB", "mgb"), "ends");
}

/// Where the driver's own memory is freed in a stream, another thread may have its address before the call
/// returns.
#[test]
fn the_drivers_own_memory_freed_in_a_stream_leaves_no_charge() {
    contends(&PrivateNode::start("1x64MiB", "mgb"), "own");
}

/// Natively that fails at once: beside a neighbour, too, whose end would not help.
#[test]
fn a_pool_does_not_wait_for_what_can_never_be() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let holds = program("holds.c", &folder("never"));
    let neighbour =
        RunningProgram::start(on(&node, &holds, &["alloc", "1", "4", "600000"]).env("MGB", "require"));
    wait::until("the neighbour holds its memory", || {
        (view(&node).gpus[0].resident_bytes > 0).then_some(())
    });
    let start = Instant::now();
    contends(&node, "huge");
    assert!(start.elapsed() < Duration::from_secs(20), "it waited");
    drop(neighbour);
}
