use mgb_probe::Bursts;
use mgb_probe::view::{HeldBack, Lack, PacedFor, SuspendedView, TaskState};

use super::reason::ReasonSubject;
use super::*;

/// Two processes on the first GPU, one that waits, and one that waits behind it.
const VIEW: &str = r#"{"version":1,"mgbd_pid":4711,"policy":"mgb","mps_pipe":null,"mps_note":null,"uptime_ms":65000,
  "clients":4,"gpus":[
    {"gpu":{"index":0,"node_index":0,"uuid":"GPU-aa","name":"GPU","total_bytes":33554432,"usable_bytes":33554432,
      "context_bytes":0,"max_warps":8448,"multiprocessors":{"count":132,"blocks":32,"warps":64,"registers":65536,
      "partitions":4,"shared_bytes":233472,"shared_reserved":1024,"shared_unit":128}},"driver_free_bytes":8388608,
      "reserved_bytes":25165824,"resident_bytes":0,"contexts_bytes":0,"reclaiming_bytes":0,"foreign_bytes":0,
      "warps_charged":128,"processes":2,"launches_in_flight":0},
    {"gpu":{"index":1,"node_index":1,"uuid":"GPU-bb","name":"GPU","total_bytes":33554432,"usable_bytes":33554432,
      "context_bytes":0,"max_warps":8448,"multiprocessors":{"count":132,"blocks":32,"warps":64,"registers":65536,
      "partitions":4,"shared_bytes":233472,"shared_reserved":1024,"shared_unit":128}},"driver_free_bytes":33554432,
      "reserved_bytes":0,"resident_bytes":0,"contexts_bytes":0,"reclaiming_bytes":0,"foreign_bytes":0,
      "warps_charged":0,"processes":0,"launches_in_flight":0,"drained":true}],
  "tasks":[
    {"pid":10,"uid":7,"task":1,"label":"train.cu:main","gpu":0,"state":"running","reserved_bytes":12582912,
      "warps":64,"age_ms":61000},
    {"pid":11,"uid":8,"task":1,"label":"","gpu":0,"state":"running","reserved_bytes":12582912,"warps":64,
      "age_ms":1000,"class":"latency"}],
  "queue":[
    {"pid":12,"uid":7,"label":"big","gpu":null,"bytes":20971520,"growth":false,"waited_ms":800},
    {"pid":13,"uid":7,"label":"small","gpu":0,"bytes":12582912,"growth":false,"waited_ms":2100}],
  "reclaims":[],
  "counts":{"granted":3,"grown":0,"refused":0,"swapped_out":0,"died_holding":0,"offenders":0}}"#;

fn view() -> NodeView {
    serde_json::from_str(VIEW).unwrap()
}

fn said(view: &NodeView, pid: u32) -> String {
    text(&explain(view, "largest", pid, 7).unwrap())
}

#[test]
fn people_see_why_a_program_waits() {
    let text = said(&view(), 13);
    for part in [
        "waits      to begin since 2.1 s: 12.0 MiB on GPU 0\n",
        "GPU 0: 8.0 MiB of 32.0 MiB free, held by process 10 (train.cu:main) with 12.0 MiB, process 11 with 12.0 MiB",
        "behind process 12 (big); order of the queue: largest",
        "class      batch: it does not say that others wait for it",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // A drained GPU is none that it could go to, and what goes first is behind nobody.
    let text = said(&view(), 12);
    assert!(
        !text.contains("GPU 1") && text.contains("1 other request in the queue"),
        "{text}"
    );
}

#[test]
fn people_see_why_a_request_is_not_considered() {
    let mut view = view();
    view.queue[1].held_back = Some(HeldBack::Drained);
    let text = said(&view, 13);
    assert!(
        text.contains("every GPU that it could go to is drained"),
        "{text}"
    );
    assert!(!text.contains("MiB of 32.0 MiB free"), "{text}");
    view.queue[1].held_back = None;
    view.queue[1].over_quota = true;
    assert!(said(&view, 13).contains("has as much as it may"));
}

#[test]
fn people_see_for_whom_a_program_is_held_and_why_it_is_where_it_is() {
    let mut view = view();
    view.tasks[0].pace = Some(PacedFor::LatencyWork);
    view.tasks[0].paused_ms = 1500;
    view.tasks[0].lacks = vec![Lack::AllMultiprocessors];
    view.tasks[0].deadline_ms = Some(60_000);
    view.tasks[0].ends_ms = Some(90_000);
    let text = said(&view, 10);
    for part in [
        "place      train.cu:main on GPU 0 for 1 min",
        "by policy mgb: which had the least work under way of those where it fits as it began",
        "held       launches on GPU 0 wait now: process 11 has work there and goes first; held for 1.5 s so far",
        "lacks      a limit: it began before the first latency program",
        "late by 30",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    view.tasks[0].pace = Some(PacedFor::Share);
    view.tasks[1].share_due = Some(500);
    assert!(said(&view, 10).contains("so that process 11 get their share"));
    view.tasks[0].pace = None;
    assert!(said(&view, 10).contains("not held now; held for 1.5 s so far"));
    view.gpus.truncate(1);
    assert!(said(&view, 10).contains("the only one"));
}

#[test]
fn people_see_of_what_class_a_program_is_and_what_it_gives() {
    let mut view = view();
    view.tasks[1].latency = Some(Bursts {
        count: 90,
        p50_us: 480,
        p99_us: 560,
    });
    let text = text(&explain(&view, "largest", 11, 0).unwrap());
    assert!(
        text.contains("class      latency") && text.contains("480 us at most in half of its 90"),
        "{text}"
    );
    view.queue[0].has_no_right = true;
    assert!(said(&view, 12).contains("its user may run no latency programs"));
}

#[test]
fn scripts_see_subjects_and_what_they_are_about() {
    let view = view();
    let answer = explain(&view, "largest", 13, 7).unwrap();
    assert_eq!(answer.reasons[0].about, ReasonSubject::Waits);
    let json = serde_json::to_value(&answer).unwrap();
    assert_eq!(
        (&json["version"], &json["pid"], &json["class"]),
        (&1.into(), &13.into(), &"batch".into())
    );
    assert_eq!(json["reasons"][0]["about"], "waits");
    assert_eq!(json["waits"][0]["waited_ms"], 2100);
}

#[test]
fn who_is_another_users_or_nobody_is_an_error() {
    let mut view = view();
    let why = |view: &NodeView, pid, reader| explain(view, "largest", pid, reader).unwrap_err().to_string();
    assert!(
        why(&view, 11, 7).contains("process 11 is "),
        "{}",
        why(&view, 11, 7)
    );
    assert!(why(&view, u32::MAX, 7).contains("there is no process"));
    let own = std::process::id();
    assert!(why(&view, own, 7).contains("does not run under MGB"));
    view.cut.tasks = 3;
    assert!(why(&view, own, 7).contains("leaves 3 tasks and requests out"));
}

#[test]
fn the_parent_of_a_process_that_is_known_is_pointed_to_it() {
    let mut view = view();
    view.tasks[0].pid = std::process::id();
    let parent = parent(std::process::id()).unwrap();
    let why = explain(&view, "largest", parent, 7).unwrap_err().to_string();
    assert!(
        why.contains(&format!("`mgb why {}`", std::process::id())),
        "{why}"
    );
}

#[test]
fn whatever_the_states_something_is_said() {
    let mut view = view();
    view.suspended.push(SuspendedView {
        pid: 10,
        uid: 7,
        job: None,
        whole_job: true,
        age_ms: 5,
        evicted_bytes: vec![u64::MAX, u64::MAX],
    });
    for state in [
        TaskState::Growing,
        TaskState::Ended,
        TaskState::Moving,
        TaskState::Evicting,
        TaskState::Evicted,
        TaskState::Restoring,
        TaskState::Suspending,
        TaskState::Suspended,
        TaskState::Reclaiming,
    ] {
        view.tasks[0].state = state;
        let text = said(&view, 10);
        assert!(
            text.contains("memory   ") && text.contains("until `mgb resume 10`"),
            "{text}"
        );
    }
    view.tasks[0].deadline_ms = Some(i64::MIN);
    view.tasks[0].ends_ms = Some(u64::MAX);
    view.queue[0].bytes = u64::MAX;
    assert!(said(&view, 10).contains("late by"));
    said(&view, 12);
}
