//! Memory of programs that people wait for stays on its GPU, and batch programs make room for it at once.

use std::fs;
use std::path::Path;

use mgb_probe::Class;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{Ended, RunningProgram};
use mgb_tests::{built, trace, wait};

/// MiB, rounds, milliseconds of each host phase, its kind, steps and blocks of each kernel: of two such
/// programs one fits.
const HALF_IDLE: [&str; 6] = ["40", "6", "600", "wait", "10", "8"];

fn phases(node: &PrivateNode, class: Class, arguments: &[&str], file: &Path) -> RunningProgram {
    let mut command = node.command(built::program("phases"), arguments);
    command.env("MGB", "require").env("MGB_TRACE", file);
    if class == Class::Latency {
        command.env("MGB_CLASS", "latency");
    }
    RunningProgram::start(&mut command)
}

fn is_right(ended: Ended) {
    assert!(ended.code() == 0 && ended.stdout.ends_with("PASS\n"), "{ended:?}");
}

/// How often memory left a GPU and came back, by a trace of one program.
fn swaps(file: &Path) -> usize {
    let processes = trace::read(file).expect("it has left a line");
    let tasks = processes.iter().flat_map(|process| &process.tasks);
    tasks.map(|task| task.swaps.len()).sum()
}

/// A batch program has its memory when a latency program comes that has room only without it: how often
/// memory of each left or came back.
fn beside_a_batch_program(options: &[&str]) -> (usize, usize) {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    node.start_mgbd_with("mgb", options);
    let [batch, latency] = ["batch.jsonl", "latency.jsonl"].map(|name| node.folder().join(name));
    let first = phases(&node, Class::Batch, &HALF_IDLE, &batch);
    wait::until("it holds its memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
    let second = phases(&node, Class::Latency, &HALF_IDLE, &latency);
    is_right(second.end());
    is_right(first.end());
    node.wait_until_empty();
    (swaps(&batch), swaps(&latency))
}

#[test]
fn a_latency_program_keeps_its_memory_and_batch_makes_room() {
    let (batch, latency) = beside_a_batch_program(&[]);
    assert_eq!((batch, latency), (2, 0));
}

#[test]
fn whose_user_may_run_none_makes_room_as_others_do() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let quotas = folder.path().join("quotas.toml");
    fs::write(&quotas, "[default]\nlatency = false\n").expect("it can be written");
    let (batch, latency) = beside_a_batch_program(&["--quotas", quotas.to_str().unwrap()]);
    assert!(batch >= 2 && latency >= 2, "{batch} {latency}");
}

/// A batch program that has work all the time leaves for it as well.
#[test]
fn batch_programs_at_work_make_room() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let [batch, latency] = ["batch.jsonl", "latency.jsonl"].map(|name| node.folder().join(name));
    let first = phases(&node, Class::Batch, &["40", "15", "1", "wait", "10", "8"], &batch);
    wait::until("it holds its memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
    let second = phases(
        &node,
        Class::Latency,
        &["40", "2", "10", "wait", "10", "8"],
        &latency,
    );
    is_right(second.end());
    let still_runs = !node.view().tasks.is_empty() || !node.view().queue.is_empty();
    assert!(still_runs, "it did not wait for the batch program's end");
    is_right(first.end());
    assert_eq!((swaps(&batch), swaps(&latency)), (2, 0));
}
