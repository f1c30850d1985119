//! Idle memory of programs that were not rebuilt makes room for who waits, on software GPUs.

mod common;

use std::path::{Path, PathBuf};

use mgb_probe::view::{HeldBack, TaskState};
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::{trace, wait};

use common::{folder, on, program};

fn pauses(test: &str) -> PathBuf {
    program("pauses.c", &folder(&format!("eviction-{test}")))
}

fn start(node: &PrivateNode, program: &Path, arguments: &[&str]) -> RunningProgram {
    let mut command = on(node, program, arguments);
    RunningProgram::start(command.env("MGB", "require"))
}

fn is_right(running: RunningProgram) {
    let ended = running.end();
    assert_eq!((ended.code(), ended.stdout.as_str()), (0, "PASS\n"), "{ended:?}");
}

#[test]
fn two_of_which_one_fits_take_turns() {
    let program = pauses("turns");
    let node = PrivateNode::start("1x64MiB", "mgb");
    let both = [(); 2].map(|()| start(&node, &program, &["40", "8", "700"]));
    both.into_iter().for_each(is_right);
    node.wait_until_empty();
    let counts = node.view().counts;
    assert!(counts.evicted >= 2 && counts.refused == 0, "{counts:?}");
}

#[test]
fn a_trace_says_where_the_time_went() {
    let program = pauses("trace");
    for (gpus, mib) in [("1x64MiB", 40), ("1x256MiB", 160)] {
        let node = PrivateNode::start(gpus, "mgb");
        let file = node.folder().join("trace.jsonl");
        let mib_text = mib.to_string();
        let mut command = on(&node, &program, &[&mib_text, "1", "3000"]);
        let idle = RunningProgram::start(command.env("MGB", "require").env("MGB_TRACE", &file));
        wait::until("it holds its memory", || {
            (node.view().gpus[0].resident_bytes >= mib << 20).then_some(())
        });
        is_right(start(&node, &program, &[&mib_text, "1", "1"]));
        is_right(idle);
        let processes = trace::read(&file).expect("it has left a line");
        // Where the machine is slow, its pause is over before the other ends, and they take further turns.
        let swaps = processes[0].swaps(0, mib << 20);
        assert!(
            !swaps.is_empty() && swaps.chunks(2).all(|turn| turn == ["evicted", "restored"]),
            "{swaps:?}"
        );
        // Few bytes are copied directly.
        assert!(
            processes[0].tasks[0]
                .swaps
                .iter()
                .all(|swap| swap.pumped == (mib > 128))
        );
    }
}

#[test]
fn who_ends_evicted_is_forgotten() {
    let program = pauses("ends");
    let node = PrivateNode::start("1x64MiB", "mgb");
    let idle = start(&node, &program, &["40", "1", "60000"]);
    wait::until("it holds its memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
    is_right(start(&node, &program, &["40", "1", "1"]));
    wait::until("it lives, and its memory is in the host", || {
        let view = node.view();
        let own = view.tasks.iter().find(|task| task.pid == idle.pid())?;
        (own.state == TaskState::Evicted && own.evicted_bytes == 40 << 20).then_some(())
    });
    drop(idle);
    is_right(start(&node, &program, &["60", "1", "1"]));
    node.wait_until_empty();
}

#[test]
fn a_context_ends_while_its_memory_is_away() {
    let program = pauses("reset");
    let node = PrivateNode::start("1x64MiB", "mgb");
    let mut command = on(&node, &program, &["40", "2", "300", "reset"]);
    command.env("MGB", "require").env("MGB_EVICT_EVERY", "20");
    is_right(RunningProgram::start(&mut command));
    node.wait_until_empty();
}

/// Suspends the program, and waits until its memory has left: bytes on each GPU.
fn suspended(node: &PrivateNode, running: &RunningProgram) -> Vec<u64> {
    let pid = running.pid();
    let done = run(&mut node.mgb(&["suspend", &pid.to_string(), "--json"]));
    assert_eq!(done.code(), 0, "{done:?}");
    let view = node.view();
    let own = view.suspended.into_iter().find(|one| one.pid == pid);
    own.expect("it is suspended").evicted_bytes
}

fn resume(node: &PrivateNode, running: &RunningProgram) {
    run(&mut node.mgb(&["resume", &running.pid().to_string()])).success();
}

/// Memory that a program has freed and that is kept for its next allocation has no bytes that must come back.
#[test]
fn what_is_freed_does_not_go_to_the_host() {
    let program = pauses("freed");
    // So large that something is kept.
    let node = PrivateNode::start("1x8GiB", "mgb");
    let first = start(&node, &program, &["40", "20", "50"]);
    wait::until("it holds its memory, and what it has freed", || {
        (node.view().gpus[0].resident_bytes == 42 << 20).then_some(())
    });
    assert_eq!(suspended(&node, &first), [40 << 20]);
    wait::until("nothing is left", || {
        let gpu = &node.view().gpus[0];
        (gpu.resident_bytes == 0 && gpu.reserved_bytes == 0).then_some(())
    });
    resume(&node, &first);
    is_right(first);
    node.wait_until_empty();
}

#[test]
fn who_is_suspended_leaves_and_goes_on_after() {
    let program = pauses("suspended");
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    // Nobody is evicted for others.
    node.start_mgbd_with("mgb", &["--no-swap"]);
    let first = start(&node, &program, &["40", "20", "50"]);
    wait::until("it holds its memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
    assert_eq!(suspended(&node, &first), [40 << 20]);
    is_right(start(&node, &program, &["60", "1", "1"]));
    // Its agent has come for room since then.
    let held = wait::until("it wants to go on", || node.view().queue.first().cloned());
    assert_eq!(
        (held.pid, held.held_back),
        (first.pid(), Some(HeldBack::Suspended))
    );
    resume(&node, &first);
    is_right(first);
    node.wait_until_empty();
}
