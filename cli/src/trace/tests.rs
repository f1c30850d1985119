//! What the file has of looks at a node.

use std::collections::BTreeMap;

use mgb_probe::view::{NodeView, PacedFor, TaskState};
use serde_json::Value;

use super::programs;
use super::recorder::Recorder;
use crate::example;

const MS: u64 = 1_000_000;

/// The events of a file that is made so.
fn events(make: impl FnOnce(&mut Recorder)) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    let mut recorder = Recorder::create(&path, 1000 * MS).expect("a file");
    make(&mut recorder);
    let count = recorder.finish().expect("is written");
    let text = std::fs::read_to_string(&path).expect("is there");
    let events: Vec<Value> = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(events.len(), count);
    events
}

/// Names, and from and to in milliseconds, of the slices of a process in the rows of that name.
fn slices(events: &[Value], pid: u32, row: &str) -> Vec<(String, u64, u64)> {
    let of = |event: &&Value| event["pid"] == pid;
    let rows = events.iter().filter(of).filter(|event| event["ph"] == "M");
    let tid = rows
        .filter(|event| event["args"]["name"] == row)
        .map(|event| &event["tid"])
        .next();
    let slices = events.iter().filter(of).filter(|event| event["ph"] == "X");
    let slices = slices.filter(|event| tid == Some(&event["tid"])).map(|event| {
        let ms = |what: &str| event[what].as_f64().expect("a number") / 1000.0;
        let name = event["name"].as_str().expect("a name");
        (
            name.to_owned(),
            ms("ts").round() as u64,
            (ms("ts") + ms("dur")).round() as u64,
        )
    });
    slices.collect()
}

fn named(name: &str, from: u64, to: u64) -> (String, u64, u64) {
    (name.to_owned(), from, to)
}

/// The example with one task alone, which is in this state.
fn one_task(state: TaskState) -> NodeView {
    let mut view = example::view();
    view.queue.clear();
    view.tasks.retain(|task| task.pid == 103);
    view.tasks[0].state = state;
    view.tasks[0].age_ms = 60_000;
    view.tasks[0].pace = None;
    view
}

#[test]
fn a_task_has_a_slice_for_each_state() {
    let events = events(|recorder| {
        for (at, state) in [
            (1000, TaskState::Running),
            (1025, TaskState::Running),
            (1050, TaskState::Evicted),
            (1075, TaskState::Running),
        ] {
            recorder.saw(at * MS, &one_task(state)).expect("is written");
        }
        let mut gone = one_task(TaskState::Running);
        gone.tasks.clear();
        recorder.saw(1100 * MS, &gone).expect("is written");
        recorder.saw(1125 * MS, &gone).expect("is written");
    });
    let task = example::view()
        .tasks
        .iter()
        .find(|task| task.pid == 103)
        .expect("it is there")
        .task;
    assert_eq!(
        slices(&events, 103, &format!("task {task}")),
        [
            named("running on GPU 1", 1000, 1050),
            named("evicted on GPU 1", 1050, 1075),
            named("running on GPU 1", 1075, 1100),
        ]
    );
}

#[test]
fn waits_and_holds_have_rows_of_their_own() {
    let events = events(|recorder| {
        let mut view = one_task(TaskState::Running);
        view.queue = example::view().queue;
        view.queue.truncate(1);
        // It began to wait before the recording.
        view.queue[0].waited_ms = 5000;
        recorder.saw(1020 * MS, &view).expect("is written");
        view.tasks[0].pace = Some(PacedFor::LatencyWork);
        recorder.saw(1040 * MS, &view).expect("is written");
        view.tasks[0].pace = Some(PacedFor::Bound);
        view.queue.clear();
        recorder.saw(1060 * MS, &view).expect("is written");
    });
    assert_eq!(
        slices(&events, 103, "holds on GPU 1"),
        [named("launches held", 1040, 1060)]
    );
    assert_eq!(
        slices(&events, 200, "waits"),
        [named("waits: room gathers on GPU 0", 1000, 1060)]
    );
}

/// The sum of the slices is what mgbd has seen, and work that goes on is one slice.
#[test]
fn work_adds_up() {
    let events = events(|recorder| {
        let mut view = one_task(TaskState::Running);
        view.tasks[0].busy_ms = 700;
        for (at, busy_ms) in [
            (1000, 700),
            (1025, 725),
            (1050, 749),
            (1075, 775),
            (1200, 775),
            (1225, 785),
        ] {
            view.tasks[0].busy_ms = busy_ms;
            recorder.saw(at * MS, &view).expect("is written");
        }
    });
    let work = slices(&events, 103, "work on GPU 1");
    assert_eq!(work, [named("work", 1000, 1075), named("work", 1215, 1225)]);
}

/// A counter holds until it is written again, so that it is written where it changes alone.
#[test]
fn memory_is_counted_where_it_changes() {
    let events = events(|recorder| {
        let mut view = one_task(TaskState::Running);
        for (at, bytes) in [(1000, 5), (1025, 5), (1050, 7)] {
            view.gpus[1].reserved_bytes = bytes;
            recorder.saw(at * MS, &view).expect("is written");
        }
    });
    let counts = events.iter().filter(|event| event["name"] == "bytes");
    let mut by_gpu: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for event in counts {
        let pid = event["pid"].as_u64().expect("a number");
        by_gpu
            .entry(pid)
            .or_default()
            .push(event["args"]["reserved"].as_u64().expect("a number"));
    }
    assert_eq!(by_gpu[&1_000_000_001], [5, 7]);
    assert_eq!(by_gpu[&1_000_000_000].len(), 1);
}

#[test]
fn programs_tell_when_memory_moved() {
    let line = r#"{"version":1,"pid":77,"program":"train","job":"a","tasks":[{"site":null,"label":"lazy","gpu":1,
        "spans":[{"gpu":1,"from_ns":1000000000,"to_ns":1900000000}],
        "swaps":[{"kind":"evicted","gpu":1,"bytes":64,"from_ns":1100000000,"to_ns":1200000000,"copy_ns":5},
        {"kind":"restored","gpu":1,"bytes":64,"from_ns":1300000000,"to_ns":1350000000,"copy_ns":5}]}]}"#;
    let line = line.replace('\n', " ");
    let events = events(|recorder| {
        programs::add_text(recorder, &format!("no json\n{line}\n")).expect("is written");
    });
    assert_eq!(
        slices(&events, 77, "room of task 0, by itself"),
        [named("has room on GPU 1", 1000, 1900)]
    );
    assert_eq!(
        slices(&events, 77, "swaps of task 0, by itself"),
        [
            named("evicted from GPU 1", 1100, 1200),
            named("restored on GPU 1", 1300, 1350),
        ]
    );
    let name = events.iter().find(|event| event["name"] == "process_name");
    assert_eq!(name.expect("it has a name")["args"]["name"], "train");
}

/// What is under way when mgbd goes ends there; the next mgbd counts anew.
#[test]
fn a_gap_ends_what_is_under_way() {
    let events = events(|recorder| {
        let mut view = one_task(TaskState::Running);
        view.tasks[0].busy_ms = 900;
        recorder.saw(1000 * MS, &view).expect("is written");
        recorder.lost(1050 * MS).expect("is written");
        view.tasks[0].busy_ms = 10;
        recorder.saw(1500 * MS, &view).expect("is written");
        view.tasks[0].busy_ms = 20;
        recorder.saw(1525 * MS, &view).expect("is written");
    });
    let task = example::view()
        .tasks
        .iter()
        .find(|task| task.pid == 103)
        .expect("it is there")
        .task;
    let rows = slices(&events, 103, &format!("task {task}"));
    assert_eq!(
        rows,
        [
            named("running on GPU 1", 1000, 1050),
            named("running on GPU 1", 1500, 1525),
        ]
    );
    assert_eq!(slices(&events, 103, "work on GPU 1"), [named("work", 1515, 1525)]);
    assert_eq!(slices(&events, 103, "waits"), []);
}
