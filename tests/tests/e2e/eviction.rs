//! Idle memory makes room for who waits: it goes to the host, and comes back as its program goes on.

use std::time::Instant;

use mgb_probe::view::{Counts, TaskState};
use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::{trace, wait};
use serde_json::Value;

/// MiB, rounds, milliseconds of each host phase, its kind, steps and blocks of each kernel.
const HALF_IDLE: [&str; 6] = ["40", "6", "600", "wait", "10", "8"];

fn phases(node: &PrivateNode, arguments: &[&str]) -> RunningProgram {
    let mut command = node.command(built::program("phases"), arguments);
    RunningProgram::start(command.env("MGB", "require"))
}

fn is_right(running: RunningProgram) {
    let ended = running.end();
    assert!(ended.code() == 0 && ended.stdout.ends_with("PASS\n"), "{ended:?}");
}

/// Two programs of which one fits: what mgbd counted, and how long both took.
fn two_of_which_one_fits(options: &[&str]) -> (Counts, f64) {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    node.start_mgbd_with("mgb", options);
    let start = Instant::now();
    let both = [phases(&node, &HALF_IDLE), phases(&node, &HALF_IDLE)];
    both.into_iter().for_each(is_right);
    let seconds = start.elapsed().as_secs_f64();
    node.wait_until_empty();
    (node.view().counts, seconds)
}

#[test]
fn idle_memory_makes_room_for_who_waits() {
    let (counts, seconds) = two_of_which_one_fits(&[]);
    assert!(
        counts.evicted >= 2 && counts.refused == 0,
        "{counts:?} in {seconds} s"
    );
    assert_eq!(counts.evicted_bytes, counts.evicted * (40 << 20));
    let (counts, _) = two_of_which_one_fits(&["--no-swap"]);
    assert_eq!((counts.evicted, counts.refused), (0, 0), "{counts:?}");
}

/// FlexGPU's rule, for comparison.
#[test]
fn idle_memory_makes_room_by_flexgpus_rule_too() {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    node.start_mgbd_with("mgb", &["--evict-by", "flexgpu"]);
    assert_eq!(node.view().evicts_by.as_deref(), Some("flexgpu"));
    let both = [phases(&node, &HALF_IDLE), phases(&node, &HALF_IDLE)];
    both.into_iter().for_each(is_right);
    node.wait_until_empty();
    let counts = node.view().counts;
    assert!(counts.evicted >= 2 && counts.refused == 0, "{counts:?}");
}

#[test]
fn people_see_which_rule_is_in_force() {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    node.start_mgbd("mgb");
    assert_eq!(node.view().evicts_by.as_deref(), Some("pays"));
    drop(node);
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    node.start_mgbd_with("mgb", &["--no-swap"]);
    assert_eq!(node.view().evicts_by, None);
    let ended = run(&mut node.mgb(&["status"]));
    assert!(
        ended.stdout.contains("policy mgb, evicts nothing, up "),
        "{ended:?}"
    );
}

#[test]
fn the_host_holds_no_more_than_it_may() {
    let (counts, _) = two_of_which_one_fits(&["--swap-memory", "39MiB"]);
    assert_eq!((counts.evicted, counts.refused), (0, 0), "{counts:?}");
}

#[test]
fn who_is_evicted_is_shown_so() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let idle = phases(&node, &["40", "2", "3000", "wait", "10", "8"]);
    wait::until("it holds its memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
    let other = phases(&node, &["40", "1", "1", "wait", "10", "8"]);
    let task = wait::until("it is evicted", || {
        let view = node.view();
        let own = view.tasks.into_iter().find(|task| task.pid == idle.pid());
        own.filter(|task| task.state == TaskState::Evicted)
    });
    assert_eq!((task.reserved_bytes, task.evicted_bytes), (0, 40 << 20));
    is_right(other);
    is_right(idle);
    node.wait_until_empty();
}

/// Copies back may take long. To mgbd what has come is the program's own meanwhile, and not something that it
/// takes beside its tasks, which others would have to leave room for from then on.
#[test]
fn memory_that_comes_back_is_nobodys_overhead() {
    // 60 MB/s: 40 MiB take 0.7 s, three times as long as mgbd's looks at what processes have are apart.
    let node = PrivateNode::start("1xP100:64MiB:slow=200", "mgb");
    let plain = built::driver_program("pauses", node.folder());
    for (program, kernel) in [(built::program("pauses"), &["10", "8"][..]), (plain, &[])] {
        let start = |rounds: &str, milliseconds: &str| {
            let mut command = node.mgb(&["run", "--"]);
            command.arg(&program).args(["40", rounds, milliseconds]);
            RunningProgram::start(command.args(kernel).env("MGB", "require"))
        };
        let idle = start("2", "3000");
        wait::until("it holds its memory", || {
            (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
        });
        is_right(start("1", "1"));
        let (evictions, mut most) = (node.view().counts.evicted, 0);
        wait::until("it is done", || {
            let view = node.view();
            most = most.max(view.gpus[0].overhead_bytes);
            view.tasks.is_empty().then_some(())
        });
        is_right(idle);
        assert!(
            evictions > 0 && most <= 8 << 20,
            "{most} bytes of overhead: {program:?}"
        );
    }
}

/// A program whose memory left once and came back: what its trace says, which is of one GPU and so many MiB.
fn trace_of_one_eviction(gpus: &str, mib: u64) -> trace::TracedProcess {
    let node = PrivateNode::start(gpus, "mgb");
    let file = node.folder().join("trace.jsonl");
    let mib = mib.to_string();
    let mut command = node.command(built::program("pauses"), &[&mib, "1", "3000", "10", "8"]);
    let idle = RunningProgram::start(command.env("MGB", "require").env("MGB_TRACE", &file));
    wait::until("it holds its memory", || {
        (node.view().gpus[0].resident_bytes > 32 << 20).then_some(())
    });
    let mut command = node.command(built::program("pauses"), &[&mib, "1", "1", "10", "8"]);
    for running in [RunningProgram::start(command.env("MGB", "require")), idle] {
        let ended = running.end();
        assert!(ended.code() == 0 && ended.stdout.ends_with("PASS\n"), "{ended:?}");
    }
    node.wait_until_empty();
    let mut processes = trace::read(&file).expect("it has left a line");
    assert_eq!(processes.len(), 1);
    processes.remove(0)
}

/// With the granule for its counter.
#[test]
fn a_trace_says_where_the_time_went() {
    let process = trace_of_one_eviction("1x64MiB", 40);
    assert_eq!(process.swaps(0, 42 << 20), ["evicted", "restored"]);
    assert!(process.tasks[0].swaps.iter().all(|swap| !swap.pumped));
}

#[test]
fn many_bytes_go_through_the_ring() {
    let process = trace_of_one_eviction("1x256MiB", 160);
    assert_eq!(process.swaps(0, 162 << 20), ["evicted", "restored"]);
    assert!(process.tasks[0].swaps.iter().all(|swap| swap.pumped));
}

#[test]
fn a_trace_of_who_was_not_evicted_has_no_swaps() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let file = node.folder().join("trace.jsonl");
    let mut command = node.command(built::program("phases"), &["40", "2", "1", "wait", "10", "8"]);
    is_right(RunningProgram::start(
        command.env("MGB", "require").env("MGB_TRACE", &file),
    ));
    let processes = trace::read(&file).expect("it has left a line");
    assert_eq!(processes[0].swaps(0, 0), [""; 0]);
}

/// A batch says for each job what left, and when it was away.
#[test]
fn a_batch_says_who_was_evicted() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = built::program("phases").display().to_string();
    let jobs = node.write(
        "jobs.txt",
        &format!("{program} {}\n", HALF_IDLE.join(" ")).repeat(2),
    );
    let ended = run(node.mgb(&["batch", "-j", "2", "--json"]).arg(jobs));
    let batch: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    node.wait_until_empty();
    let jobs = batch["jobs"].as_array().expect("it has jobs");
    let sum = |field: &str| {
        jobs.iter()
            .map(|job| job["evictions"][field].as_u64().unwrap())
            .sum::<u64>()
    };
    let counts = node.view().counts;
    // mgbd also counts room that a task gave back before its bytes had come home: they were still away.
    let times = sum("times");
    assert!(
        0 < times && times <= counts.evicted + counts.swapped_out,
        "{times}, {counts:?}"
    );
    assert_eq!(sum("bytes"), times * (40 << 20));
    let tasks = jobs.iter().flat_map(|job| job["tasks"].as_array().unwrap());
    let away: Vec<&Value> = tasks.flat_map(|task| task["away"].as_array().unwrap()).collect();
    assert_eq!(away.len() as u64, times, "{batch}");
    for span in away {
        let (from, to) = (span["from_s"].as_f64().unwrap(), span["to_s"].as_f64().unwrap());
        assert!(from < to && span["bytes"] == 40 << 20, "{span}");
    }
    assert!(
        jobs.iter()
            .any(|job| job["evictions"]["copying_s"].as_f64().unwrap() > 0.0),
        "{batch}"
    );
}

/// A program that dies while its memory is in the host leaves nothing behind.
#[test]
fn who_dies_evicted_is_forgotten() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let idle = phases(&node, &["40", "2", "60000", "wait", "10", "8"]);
    wait::until("it holds its memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
    is_right(phases(&node, &["40", "1", "1", "wait", "10", "8"]));
    assert_eq!(node.view().counts.evicted, 1);
    drop(idle);
    is_right(phases(&node, &["60", "1", "1", "wait", "10", "8"]));
    node.wait_until_empty();
}

/// Two devices, and copies between their memory: both have to be there at once.
const BETWEEN_DEVICES: &str = r#"
#include <cstdio>
#include <vector>
int main() {
  const size_t words = 12 << 20;
  std::vector<int> host(words, 1);
  int *at[2];
  for (int device = 0; device < 2; device++) {
    cudaSetDevice(device);
    cudaMalloc(&at[device], words * sizeof(int));
    cudaMemcpy(at[device], host.data(), words * sizeof(int), cudaMemcpyHostToDevice);
  }
  for (int round = 0; round < 20; round++)
    if (cudaMemcpy(at[round % 2], at[1 - round % 2], 64, cudaMemcpyDefault) != cudaSuccess) {
      printf("round %d: %s\n", round, cudaGetErrorName(cudaGetLastError()));
      return 1;
    }
  printf("PASS\n");
}
"#;

#[test]
fn an_op_of_two_tasks_has_both_however_often_memory_leaves() {
    let node = PrivateNode::start("2x128MiB", "mgb");
    let source = node.write("between.cu", BETWEEN_DEVICES);
    let program = source.with_extension("");
    let paths = [&source, &program].map(|path| path.to_str().expect("paths of tests are UTF-8"));
    run(&mut node.mgb(&["clang++", "-O1", paths[0], "-o", paths[1]])).success();
    let mut command = node.command(&program, &[]);
    is_right(RunningProgram::start(
        command.env("MGB", "require").env("MGB_EVICT_EVERY", "1"),
    ));
}
