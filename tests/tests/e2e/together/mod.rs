//! Programs with two tasks that one launch needs at once, where there is room for one program only: their memory
//! does not push each other's out for ever.

use std::path::{Path, PathBuf};

use mgb_probe::{BeginRequest, Client, Need};
use mgb_tests::compiled;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::report;
use mgb_tests::trace;
use mgb_tests::wait;

/// As often memory may leave for one of the programs: once to make room for each other one, and again for every
/// attempt to bring two tasks in that came to nothing.
const MAX_EVICTIONS: usize = 24;

fn program() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/together/together.cu");
    let program = compiled::program(&source, &["--offload-arch=sm_90", "-O2"]);
    let modules = report::read(&program).expect("the program has a report");
    let mut tasks: Vec<&str> = modules
        .iter()
        .flat_map(|module| &module.tasks)
        .map(|task| task.kind.as_str())
        .collect();
    tasks.sort_unstable();
    tasks.dedup();
    assert_eq!(tasks, ["lazy", "static"]);
    program
}

#[track_caller]
fn all_end(gpus: &str, programs: usize) {
    let program = program();
    let node = PrivateNode::start(gpus, "mgb");
    let file = node.folder().join("trace.jsonl");
    let running: Vec<RunningProgram> = (0..programs)
        .map(|_| {
            let mut command = node.command(&program, &["40", "40"]);
            RunningProgram::start(command.env("MGB", "require").env("MGB_TRACE", &file))
        })
        .collect();
    for one in running {
        let ended = one.end();
        assert!(ended.code() == 0 && ended.stdout == "PASS\n", "{ended:?}");
    }
    let processes = trace::read(&file).expect("each has left a line");
    assert_eq!(processes.len(), programs);
    for process in processes {
        let evicted = process
            .tasks
            .iter()
            .flat_map(|task| &task.swaps)
            .filter(|swap| swap.kind == "evicted")
            .count();
        assert!(
            evicted <= MAX_EVICTIONS,
            "memory was evicted {evicted} times: {process:?}"
        );
    }
    node.wait_until_empty();
}

#[test]
fn three_programs_of_which_one_fits_all_end() {
    all_end("1x96MiB", 3);
}

#[test]
fn four_programs_on_two_gpus_all_end() {
    all_end("2x96MiB", 4);
}

/// Where another program leaves room for one of two tasks, the program waits until that has ended, and its memory
/// does not go to and fro meanwhile.
#[test]
fn what_another_program_leaves_no_room_for_waits_for_its_end() {
    let node = PrivateNode::start("1x96MiB", "mgb");
    let holder = Client::connect(&node.socket()).expect("mgbd takes clients");
    let held = 40 << 20;
    let request = BeginRequest {
        need: Need {
            peak_bytes: held,
            mapped_bytes: held,
            ..Need::default()
        },
        ..BeginRequest::default()
    };
    let grant = holder.begin(&request).expect("there is room");
    let mut command = node.command(program(), &["40", "4"]);
    let running = RunningProgram::start(command.env("MGB", "require"));
    wait::until("it waits for room", || {
        (!node.view().queue.is_empty()).then_some(())
    });
    holder.end(grant.task, 0);
    let ended = running.end();
    assert!(ended.code() == 0 && ended.stdout == "PASS\n", "{ended:?}");
    let counts = node.view().counts;
    assert_eq!((counts.evicted, counts.swapped_out), (0, 0));
}

/// Natively the second allocation fails, and so does something here; the program must not wait for ever.
#[test]
fn what_no_gpu_holds_together_ends() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let ended = run(node.command(program(), &["40", "2"]).env("MGB", "require"));
    assert!(
        ended.code() == 0 || ended.stdout.contains("cudaErrorMemoryAllocation"),
        "{ended:?}"
    );
    node.wait_until_empty();
}
