//! Idle memory of programs that were not rebuilt makes room for who waits, on software GPUs.

mod common;

use std::path::{Path, PathBuf};

use mgb_probe::view::TaskState;
use mgb_tests::node::Node;
use mgb_tests::process::Running;
use mgb_tests::{trace, wait};

use common::{folder, on, program};

fn pauses(test: &str) -> PathBuf {
    program("pauses.c", &folder(&format!("eviction-{test}")))
}

fn start(node: &Node, program: &Path, arguments: &[&str]) -> Running {
    let mut command = on(node, program, arguments);
    Running::start(command.env("MGB", "require"))
}

fn is_right(running: Running) {
    let ended = running.end();
    assert_eq!((ended.code(), ended.stdout.as_str()), (0, "PASS\n"), "{ended:?}");
}

#[test]
fn two_of_which_one_fits_take_turns() {
    let program = pauses("turns");
    let node = Node::start("1x64MiB", "mgb");
    let both = [(); 2].map(|()| start(&node, &program, &["40", "4", "700"]));
    both.into_iter().for_each(is_right);
    node.wait_until_empty();
    let counts = node.view().counts;
    assert!(counts.evicted >= 2 && counts.refused == 0, "{counts:?}");
}

#[test]
fn a_trace_says_where_the_time_went() {
    let program = pauses("trace");
    for (gpus, mib) in [("1x64MiB", 40), ("1x256MiB", 160)] {
        let node = Node::start(gpus, "mgb");
        let file = node.folder().join("trace.jsonl");
        let mib_text = mib.to_string();
        let mut command = on(&node, &program, &[&mib_text, "1", "3000"]);
        let idle = Running::start(command.env("MGB", "require").env("MGB_TRACE", &file));
        wait::until("it holds its memory", || {
            (node.view().gpus[0].resident_bytes >= mib << 20).then_some(())
        });
        is_right(start(&node, &program, &[&mib_text, "1", "1"]));
        is_right(idle);
        let processes = trace::read(&file).expect("it has left a line");
        assert_eq!(processes[0].swaps(0, mib << 20), ["evicted", "restored"]);
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
    let node = Node::start("1x64MiB", "mgb");
    let idle = start(&node, &program, &["40", "1", "60000"]);
    wait::until("it holds its memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
    is_right(start(&node, &program, &["40", "1", "1"]));
    let view = node.view();
    let own = view.tasks.iter().find(|task| task.pid == idle.pid());
    let own = own.expect("it lives, and its memory is in the host");
    assert_eq!((own.state, own.evicted_bytes), (TaskState::Evicted, 40 << 20));
    drop(idle);
    is_right(start(&node, &program, &["60", "1", "1"]));
    node.wait_until_empty();
}

#[test]
fn a_context_ends_while_its_memory_is_away() {
    let program = pauses("reset");
    let node = Node::start("1x64MiB", "mgb");
    let mut command = on(&node, &program, &["40", "2", "300", "reset"]);
    command.env("MGB", "require").env("MGB_EVICT_EVERY", "20");
    is_right(Running::start(&mut command));
    node.wait_until_empty();
}
