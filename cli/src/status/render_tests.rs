//! What people see of views.

use mgb_probe::Class;
use mgb_probe::view::{NodeView, PacedFor, TaskState, WaitsFor};

use super::*;

const VIEW: &str = r#"{"version":1,"mgbd_pid":4711,"policy":"mgb","evicts_by":"pays","mps_pipe":null,
  "mps_note":"software GPUs have none","uptime_ms":65000,"clients":5,"starting":3,
  "gpus":[{"gpu":{"index":0,"node_index":0,"uuid":"GPU-aa","name":"Software GPU","total_bytes":268435456,
    "usable_bytes":266338304,"context_bytes":1048576,"max_warps":8448,
    "multiprocessors":{"count":132,"blocks":32,"warps":64,"registers":65536,"partitions":4,"shared_bytes":233472,
    "shared_reserved":1024,"shared_unit":128}},"driver_free_bytes":200000000,
    "reserved_bytes":113246208,"headroom_bytes":4194304,"resident_bytes":104857600,"contexts_bytes":2097152,"overhead_bytes":524288,
    "reclaiming_bytes":1048576,"foreign_bytes":0,"warps_charged":512,"processes":2,"launches_in_flight":1}],
  "tasks":[{"pid":100,"task":1,"label":"va.cu:main","gpu":0,"state":"running","reserved_bytes":104857600,
    "expected_bytes":109051904,"held_bytes":83886080,"peak_bytes":106954752,"warps":512,"age_ms":1500},
    {"pid":99,"task":3,"label":"grow","gpu":0,"state":"reclaiming","reserved_bytes":8388608,"warps":0,
    "age_ms":7200000}],
  "queue":[{"pid":101,"label":"phases.cu:main","gpu":null,"bytes":209715200,"expected_bytes":251658240,"growth":false,"waited_ms":800}],
  "reclaims":[],
  "counts":{"granted":3,"grown":0,"refused":0,"swapped_out":0,"died_holding":1,"offenders":0}}"#;

#[test]
fn people_see() {
    let view: NodeView = serde_json::from_str(VIEW).unwrap();
    insta::assert_snapshot!("narrow", text(&view, Width::Narrow));
    insta::assert_snapshot!("wide", text(&view, Width::Wide));
}

#[test]
fn people_see_what_a_request_waits_for() {
    let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
    let line = |view: &NodeView, width| {
        let text = text(view, width);
        let line = text.lines().find(|line| line.contains("phases.cu"));
        line.unwrap_or_default().to_owned()
    };
    assert!(
        line(&view, Width::Narrow).contains("any  new, room  "),
        "it wants more than there is"
    );
    view.queue[0].bytes = 100 << 20;
    assert!(
        line(&view, Width::Narrow).contains("any  new, its turn  "),
        "it would fit"
    );
    view.queue[0].growth = true;
    assert!(line(&view, Width::Wide).contains("any  more, its turn  "));
    let mut said = |waits_for| {
        view.queue[0].waits_for = Some(waits_for);
        line(&view, Width::Narrow)
    };
    let wanted = [
        (WaitsFor::RoomGathers(3), "room gathers on GPU 3"),
        (WaitsFor::NothingLeaves, "nothing leaves its GPUs"),
        (WaitsFor::Growth, "others wait to grow there"),
        (WaitsFor::UserPlaces, "its user has half of all places"),
        (WaitsFor::Places, "all places for processes are taken"),
        (WaitsFor::OwnGpu, "a GPU for itself"),
        (WaitsFor::KeptAlone, "a task has the GPU for itself"),
        (WaitsFor::GathersFor(77), "room gathers for 77"),
    ];
    for (why, words) in wanted {
        let line = said(why);
        assert!(line.contains(&format!("more, {words}")), "{line}");
    }
}

#[test]
fn what_is_usual_fits_a_terminal_and_says_who_is_held_and_late() {
    let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
    view.tasks[0].pace = Some(PacedFor::LatencyWork);
    view.tasks[0].most_time_ms = Some(1);
    view.tasks[0].time_ms = 2;
    let text = text(&view, Width::Narrow);
    assert!(text.contains("running, launches held, late"), "{text}");
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|longest| longest < 100), "{text}");
}

#[test]
fn people_see_by_what_rule_memory_is_evicted() {
    let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
    let first = |view: &NodeView| {
        text(view, Width::Wide)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    view.evicts_by = Some("flexgpu".to_owned());
    assert!(first(&view).starts_with("mgbd 4711, policy mgb, evicts by flexgpu, up 1 min"));
    view.evicts_by = None;
    assert!(first(&view).starts_with("mgbd 4711, policy mgb, evicts nothing, up 1 min"));
}

#[test]
fn people_see_who_is_waited_for_and_whose_launches_are_held() {
    let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
    view.tasks[0].paused_ms = 2_500;
    view.tasks[0].speed = Some(126);
    view.tasks[1].class = Class::Latency;
    let text = text(&view, Width::Wide);
    let line = |with: &str| text.lines().find(|line| line.contains(with)).unwrap_or_default();
    assert!(line("va.cu:main").contains("batch    running"), "{text}");
    assert!(
        line("va.cu:main").contains("1.5 s   2.5 s    13%  va.cu:main"),
        "{text}"
    );
    assert!(line("grow").contains("latency  reclaiming"), "{text}");
}

#[test]
fn people_see_who_has_a_part_of_the_multiprocessors() {
    let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
    assert!(!text(&view, Width::Wide).contains("SMs"));
    view.tasks[0].multiprocessors_percent = Some(25);
    let said = text(&view, Width::Wide);
    assert!(said.contains("1.5 s  25%  va.cu:main"), "{said}");
    assert!(said.contains("2.0 h    -  grow"), "{said}");
    assert!(!text(&view, Width::Narrow).contains("SMs"));
}

#[test]
fn people_see_whose_the_time_of_a_gpu_is() {
    let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
    view.tasks[0].share = Some(126);
    let said = text(&view, Width::Wide);
    assert!(said.contains("1.5 s    13%  va.cu:main"), "{said}");
    assert!(said.contains("2.0 h      -  grow"), "{said}");
    view.tasks[0].share_due = Some(500);
    let said = text(&view, Width::Wide);
    assert!(said.contains("13% of 50%  va.cu:main"), "{said}");
}

#[test]
fn people_see_who_has_more_time_than_he_may() {
    let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
    let line = |view: &NodeView| {
        let text = text(view, Width::Wide);
        let line = text.lines().find(|line| line.contains("va.cu:main"));
        line.unwrap_or_default().to_owned()
    };
    let without = line(&view);
    assert!(without.contains("1.5 s  va.cu:main"), "{without}");
    view.tasks[0].most_time_ms = Some(1_800_000);
    view.tasks[0].time_ms = 1_800_000;
    let in_time = line(&view);
    assert!(
        in_time.contains("1.5 s  30 min of 30 min  va.cu:main"),
        "{in_time}"
    );
    view.tasks[0].time_ms = 1_860_000;
    let late = line(&view);
    assert!(late.contains("31 min of 30 min, late  va.cu:main"), "{late}");
}

#[test]
fn people_see_what_was_evicted() {
    let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
    view.tasks[0].state = TaskState::Evicted;
    view.tasks[0].reserved_bytes = 0;
    view.tasks[0].evicted_bytes = 100 << 20;
    view.counts.evicted = 3;
    view.counts.evicted_bytes = 300 << 20;
    view.counts.swapped_out = 1;
    insta::assert_snapshot!("evicted", text(&view, Width::Wide));
}
