//! Deadlines from the command line and from the source: what is said before a program starts, what is shown
//! while it runs and waits, and that one that would be late is not started.

use std::path::PathBuf;
use std::process::Command;

use mgb_probe::view::TaskView;
use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::bin;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use serde_json::Value;

fn node() -> PrivateNode {
    let mut node = PrivateNode::without_mgbd("1x32MiB");
    node.start_mgbd_with("mgb", &["--queue", "laxity"]);
    node
}

/// `mgb run` with these options, of a program that holds so many MiB and works for so many rounds.
fn phases(node: &PrivateNode, options: &[&str], size: &str, rounds: &str) -> Command {
    let program = built::program("phases");
    let words = [
        &["run"],
        options,
        &[
            "--",
            program.to_str().unwrap(),
            size,
            rounds,
            "20",
            "wait",
            "10",
            "8",
        ],
    ]
    .concat();
    node.mgb(&words)
}

fn task_of(node: &PrivateNode, pid: u32) -> Option<TaskView> {
    node.view().tasks.into_iter().find(|task| task.pid == pid)
}

#[test]
fn a_program_that_is_expected_to_be_late_is_not_started() {
    let node = node();
    let said = |options: &[&str]| run(&mut phases(&node, options, "12", "3"));
    let first = said(&["--deadline", "1h", "--or-refuse"]);
    assert_eq!(first.code(), 0, "{first:?}");
    assert!(
        first.stderr.contains("; nothing is known of the program"),
        "{first:?}"
    );
    // mgbd may hear of its end after this process does.
    wait::until("it is known how long it takes", || {
        let next = said(&["--deadline", "1h"]);
        assert_eq!(next.code(), 0, "{next:?}");
        let is_known = next.stderr.contains("; expected to end in ") && next.stderr.contains(": met\n");
        is_known.then_some(())
    });
    // With other arguments it is another one.
    let other = run(&mut phases(
        &node,
        &["--deadline", "1h", "--or-refuse"],
        "12",
        "4",
    ));
    assert!(
        other.code() == 0 && other.stderr.contains("nothing is known"),
        "{other:?}"
    );
    let late = said(&["--deadline", "1ms", "--or-refuse"]);
    assert_eq!((late.code(), late.stdout.as_str()), (123, ""), "{late:?}");
    assert!(
        late.stderr.contains(": missed by ") && late.stderr.contains("not started"),
        "{late:?}"
    );
    // Not being started is nothing that is learned.
    let late = said(&["--deadline", "1ms"]);
    assert!(
        late.code() == 0 && late.stderr.contains(": missed by "),
        "{late:?}"
    );
    let other = run(&mut phases(
        &node,
        &["--deadline", "@0", "--or-refuse"],
        "12",
        "5",
    ));
    assert!(
        other.code() == 123 && other.stderr.contains("has passed"),
        "{other:?}"
    );
    let wrong = said(&["--deadline", "soon"]);
    assert!(
        wrong.code() == 2 && wrong.stderr.contains("`soon` is no deadline"),
        "{wrong:?}"
    );
}

#[test]
fn a_deadline_is_shown_while_a_program_runs_and_waits() {
    let node = node();
    let trace = node.folder().join("trace");
    let start = |options: &[&str]| {
        let mut command = phases(&node, options, "20", "1000000");
        RunningProgram::start(command.env("MGB_TRACE", &trace))
    };
    let first = start(&["--deadline", "1h"]);
    let task = wait::until("it runs", || task_of(&node, first.pid()));
    let left = task.deadline_ms.unwrap();
    assert!((3_000_000..=3_600_000).contains(&left), "{task:?}");
    // The others wait; of one its environment says it, the deadline of the last has passed.
    let others = [
        start(&["--need", "20MiB", "--deadline", "2h"]),
        start(&["--deadline", "@0"]),
    ];
    let due = wait::until("both wait", || {
        let view = node.view();
        let due = |pid| view.queue.iter().find(|wait| wait.pid == pid)?.deadline_ms;
        Some([due(others[0].pid())?, due(others[1].pid())?])
    });
    assert!(
        (7_000_000..=7_200_000).contains(&due[0]) && due[1] <= 0,
        "{due:?}"
    );
    let status = run(&mut node.mgb(&["status", "--wide"])).success();
    assert_eq!(status.matches("due in").count(), 2, "{status}");
    let status = run(&mut node.mgb(&["status", "--json"])).success();
    assert!(status.contains("\"deadline_ms\": "), "{status}");
    for process in others.into_iter().chain([first]) {
        process.signal(rustix::process::Signal::TERM);
        process.end();
    }
}

/// Runs tasks in a loop until a file is there, which want their results in a minute.
const REQUESTS: &str = r#"
#include <cuda_runtime.h>
#include <mgb.h>
#include <unistd.h>
__global__ void set(int *x, int to) { *x = to; }
int main(int, char **arguments) {
  for (int i = 0; access(arguments[1], F_OK) != 0; ++i) {
    MGB_DEADLINE(60000);
    int *x, result = -1;
    cudaMalloc(&x, 1 << 20);
    set<<<1, 1>>>(x, i);
    cudaMemcpy(&result, x, sizeof result, cudaMemcpyDeviceToHost);
    usleep(10000);
    cudaFree(x);
    if (result != i) return 1;
  }
}
"#;

#[test]
fn the_source_says_the_deadline_of_each_task_of_a_loop() {
    let node = node();
    let source = node.write("requests.cu", REQUESTS);
    let program = node.folder().join("requests");
    let mut compile = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90", "-O1"]);
    run(compile.arg(&source).arg("-o").arg(&program)).success();
    let shown = run(node.mgb(&["explain"]).arg(&program)).success();
    assert!(shown.contains("60000 ms after its begin"), "{shown}");
    let until: PathBuf = node.folder().join("until");
    let mut command = node.command(&program, &[until.to_str().unwrap()]);
    // The process has another one.
    let far = mgb_probe::Deadline::within(std::time::Duration::from_secs(7200));
    let process = RunningProgram::start(
        command
            .env("MGB", "require")
            .env(mgb_probe::DEADLINE, far.to_string()),
    );
    let due = wait::until("a task runs", || task_of(&node, process.pid())?.deadline_ms);
    assert!(due <= 60_000, "{due}");
    node.write("until", "");
    assert_eq!(process.end().code(), 0);
}

#[test]
fn a_batch_shows_which_deadlines_were_met() {
    let node = node();
    let program = built::program("phases").display().to_string();
    let words = "12 3 20 wait 10 8";
    let jobs = format!(
        "deadline=1h {program} {words}\ndeadline=1ms need=16MiB {program} {words}\n{program} {words}\n"
    );
    let jobs = node.write("jobs.txt", &jobs);
    let shown = run(node.mgb(&["batch", "-j", "1"]).arg(&jobs)).success();
    assert!(
        shown.contains(" s, met ") && shown.contains(" s, missed by "),
        "{shown}"
    );
    // The second time it is known how long they take, at least once mgbd has heard of the end of the first.
    let due = wait::until("an expected end", || {
        let summary = run(node.mgb(&["batch", "-j", "1", "--json"]).arg(&jobs)).success();
        let summary: Value = serde_json::from_str(&summary).unwrap();
        let due = |job: usize| summary["jobs"][job]["due"].clone();
        assert_eq!(due(2), Value::Null);
        let is_known = due(0)["expected_end_s"].is_f64() && due(1)["expected_end_s"].is_f64();
        is_known.then(|| due(0)["deadline_s"].as_f64())
    });
    assert!(due.is_some_and(|due| (3590.0..=3600.0).contains(&due)), "{due:?}");
}
