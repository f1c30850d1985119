//! `mgb trace`: what happens on a node, in a file that others read.

use std::collections::BTreeSet;

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::bin;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use serde_json::Value;

/// MiB, rounds, milliseconds of each host phase, its kind, steps and blocks of each kernel.
const PAUSES: [&str; 6] = ["40", "6", "300", "wait", "10", "8"];

fn events(node: &PrivateNode, file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(node.folder().join(file)).expect("it is written");
    serde_json::from_str(&text).expect("it is JSON")
}

fn names(events: &[Value], kind: &str) -> BTreeSet<String> {
    let of = events.iter().filter(|event| event["ph"] == kind);
    of.map(|event| event["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// The names of a trace's rows.
fn rows(events: &[Value]) -> BTreeSet<String> {
    let of = events.iter().filter(|event| event["ph"] == "M");
    of.map(|event| event["args"]["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// Two programs that fit one after the other, or where one's memory leaves while it pauses.
#[test]
fn a_command_is_recorded_with_its_programs() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = built::program("phases");
    let line = format!("{} {}\n", program.display(), PAUSES.join(" "));
    node.write("jobs.txt", &line.repeat(2));
    let mgb = bin("mgb");
    let mgb = mgb.to_str().expect("its path is text");
    let batch = ["trace", "-o", "t.json", "--", mgb, "batch", "-j", "2", "jobs.txt"];
    run(&mut node.mgb(&batch)).success();
    let events = events(&node, "t.json");
    let (slices, rows) = (names(&events, "X"), rows(&events));
    for wanted in [
        "running on GPU 0",
        "evicted on GPU 0",
        "has room on GPU 0",
        "evicted from GPU 0",
        "work",
    ] {
        assert!(slices.contains(wanted), "{wanted} in {slices:?}");
    }
    for wanted in [
        "work on GPU 0",
        "waits",
        "room of task 0, by itself",
        "swaps of task 0, by itself",
    ] {
        assert!(rows.contains(wanted), "{wanted} in {rows:?}");
    }
    assert_eq!(
        names(&events, "C"),
        BTreeSet::from(["bytes".to_owned(), "use".to_owned()])
    );
    // A program's work is within the time in which it had room.
    let slice = |name: &str| {
        let of = events
            .iter()
            .filter(|event| event["ph"] == "X" && event["name"] == name);
        let pid = of.clone().next().expect("it is there")["pid"].clone();
        let of = of.filter(|event| event["pid"] == pid);
        of.map(|event| event["dur"].as_f64().expect("a number"))
            .sum::<f64>()
    };
    assert!(slice("has room on GPU 0") > 0.0 && slice("work") > 0.0);
}

/// The exit code is the command's; its signals go on to it.
#[test]
fn a_command_ends_as_it_does_alone() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let code = |script: &str| run(&mut node.mgb(&["trace", "--", "sh", "-c", script])).code();
    assert_eq!(code("exit 7"), 7);
    assert_eq!(code("kill -KILL $$"), 137);
    let script = "trap 'exit 9' TERM; echo ready > ready; while :; do sleep 0.05; done";
    let program = RunningProgram::start(&mut node.mgb(&["trace", "--", "sh", "-c", script]));
    wait::until("it runs", || node.folder().join("ready").exists().then_some(()));
    program.signal(rustix::process::Signal::TERM);
    assert_eq!(program.end().code(), 9);
    events(&node, "mgb-trace.json");
    // What others read is theirs: nobody waits for a writer of a pipe.
    let pipe = node.folder().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).expect("a pipe");
    run(node.mgb(&["trace", "--", "true"]).env("MGB_TRACE", &pipe)).success();
    run(&mut node.mgb(&["trace", "--", "./nothing"])).failure(&["failed to find the program ./nothing"]);
}

/// Without a command it ends by a signal or in time, and says where it has written.
#[test]
fn a_node_is_recorded_for_a_while() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let ended = run(&mut node.mgb(&["trace", "--for", "1"]));
    assert!(
        ended.code() == 0 && ended.stderr.contains("in mgb-trace.json"),
        "{ended:?}"
    );
    assert!(
        rows(&events(&node, "mgb-trace.json"))
            .iter()
            .any(|name| name.starts_with("GPU 0"))
    );
    let recording = RunningProgram::start(&mut node.mgb(&["trace", "-o", "other.json"]));
    wait::until("it is there", || {
        node.folder().join("other.json").exists().then_some(())
    });
    recording.signal(rustix::process::Signal::INT);
    assert_eq!(recording.end().code(), 0);
    events(&node, "other.json");
    run(&mut node.mgb(&["trace", "-o", "/nowhere/t.json", "--for", "1"])).failure(&["/nowhere/t.json"]);
    run(&mut node.mgb(&["trace", "-o", "/dev/full", "--for", "1"])).failure(&["failed to write"]);
    let never = u64::MAX.to_string();
    run(&mut node.mgb(&["trace", "--for", &never])).failure(&["invalid value"]);
    let nobody = PrivateNode::without_mgbd("1x64MiB");
    assert_eq!(run(&mut nobody.mgb(&["trace", "--for", "1"])).code(), 3);
}
