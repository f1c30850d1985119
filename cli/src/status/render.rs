//! Prints the status for people.

use std::fmt::Write;

use mgb_command::table::{Table, plural, span};
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{Counts, GpuView, HeldBack, IdleView, NodeView, WaitView, WaitsFor};

use super::tasks::{due_cells, due_head, expected, tasks};
use crate::kept;
use crate::user;
use crate::wait_evicted;

/// The GPUs, then the tasks that hold room, then those that wait.
pub fn text(view: &NodeView) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "mgbd {}, policy {}{}, up {}, {}, {}",
        view.mgbd_pid,
        view.policy,
        evicts_by(view),
        span(view.uptime_ms),
        plural(view.clients as usize, "client"),
        mps(view)
    );
    let _ = write!(text, "\n{}", gpus(&view.gpus));
    let _ = match view.tasks.as_slice() {
        [] => writeln!(text, "\nno tasks"),
        held => write!(text, "\n{}", tasks(held)),
    };
    let _ = match view.queue.as_slice() {
        [] => writeln!(text, "\nnobody waits for room"),
        waiting => write!(text, "\n{}", queue(waiting)),
    };
    if view.cut.tasks + view.cut.queue > 0 {
        let _ = writeln!(
            text,
            "\nnot shown, for want of room: {}, {}",
            plural(view.cut.tasks as usize, "task"),
            plural(view.cut.queue as usize, "request")
        );
    }
    let ordered = ordered(view);
    if !ordered.is_empty() {
        let _ = write!(text, "\n{ordered}");
    }
    if view.starting > 0 {
        let programs = plural(view.starting as usize, "program");
        let _ = writeln!(
            text,
            "\nwaiting for the driver, which starts one after another: {programs}"
        );
    }
    text.push_str(&evictions(&view.counts));
    text
}

/// What left GPUs since mgbd's start, if anything did.
fn evictions(counts: &Counts) -> String {
    let mut text = String::new();
    if counts.evicted > 0 {
        text = format!(
            "\nidle memory left a GPU for others {}, {} in all\n",
            plural(counts.evicted as usize, "time"),
            Bytes(counts.evicted_bytes)
        );
    }
    if counts.moved > 0 {
        let (times, bytes) = (plural(counts.moved as usize, "time"), Bytes(counts.moved_bytes));
        text += &format!("\ntasks went on, on another GPU {times}, {bytes} with them\n");
    }
    if counts.swapped_out > 0 {
        let times = plural(counts.swapped_out as usize, "time");
        text += &format!("\nprograms that waited only for each other made room {times}\n");
    }
    text
}

/// By which rule memory is evicted, where it is not the usual one.
fn evicts_by(view: &NodeView) -> String {
    match view.evicts_by.as_deref() {
        Some("pays") => String::new(),
        Some(rule) => format!(", evicts by {rule}"),
        None => ", evicts nothing".to_owned(),
    }
}

fn mps(view: &NodeView) -> String {
    match (&view.mps_pipe, &view.mps_note) {
        (Some(pipe), _) => format!("MPS at {pipe}"),
        (None, Some(why)) => format!("no MPS ({why})"),
        (None, None) => "no MPS".to_owned(),
    }
}

fn gpus(gpus: &[GpuView]) -> Table {
    let numbers = [
        "gpu",
        "usable",
        "reserved",
        "headroom",
        "mapped",
        "contexts",
        "overhead",
        "reclaiming",
        "foreign",
        "warps",
    ];
    let head = [&numbers[..], &["name"]].concat();
    let mut table = Table::new(&head, &numbers);
    for view in gpus {
        let sizes = [
            view.gpu.usable_bytes,
            view.reserved_bytes,
            view.headroom_bytes,
            view.resident_bytes,
            view.contexts_bytes,
            view.overhead_bytes,
            view.reclaiming_bytes,
            view.foreign_bytes,
        ];
        let sizes = sizes.into_iter().map(|bytes| Bytes(bytes).to_string());
        let warps = format!("{}/{}", view.warps_charged, view.gpu.max_warps);
        let index = view.gpu.index.to_string();
        table.row(
            [index]
                .into_iter()
                .chain(sizes)
                .chain([warps, view.gpu.name.clone()]),
        );
    }
    table
}

fn queue(queue: &[WaitView]) -> Table {
    let any_user = user::are_several(queue.iter().map(|wait| wait.uid));
    let user = if any_user { &["user"][..] } else { &[] };
    let due = due_head(queue.iter().any(|wait| wait.deadline_ms.is_some()));
    let head = [
        &["waits", "pid"][..],
        user,
        &["wants", "expected"],
        due,
        &["gpu", "kind", "task"],
    ]
    .concat();
    let numbers = [&["waits", "pid", "wants", "expected"], due].concat();
    let mut table = Table::new(&head, &numbers);
    for wait in queue {
        let first = [span(wait.waited_ms), wait.pid.to_string()];
        let user = any_user.then(|| user::name(wait.uid));
        let sizes = [
            Bytes(wait.bytes).to_string(),
            expected(if wait.expected_bytes > wait.bytes {
                wait.expected_bytes
            } else {
                0
            }),
        ];
        let due = due_cells(wait.deadline_ms, wait.ends_ms)
            .into_iter()
            .take(due.len());
        let last = [
            wait.gpu.map_or_else(|| "any".to_owned(), |gpu| gpu.to_string()),
            kind(wait),
            wait.label.clone(),
        ];
        let first = first.into_iter().chain(user).chain(sizes);
        table.row(first.chain(due).chain(last));
    }
    table
}

/// What is asked for, and why it is not considered, if it is not.
pub fn kind(wait: &WaitView) -> String {
    let kind = if wait.growth { "more" } else { "new" };
    match wait.held_back {
        None if wait.over_quota => match wait.limited {
            Some(what) => format!("{kind}, over quota: {}", what.name()),
            None => format!("{kind}, over quota"),
        },
        None if wait.gpu_lost => format!("{kind}, GPU lost"),
        None => waits_for(wait).map_or_else(|| kind.to_owned(), |why| format!("{kind}, {why}")),
        Some(HeldBack::Suspended) => format!("{kind}, suspended"),
        Some(HeldBack::Drained) => format!("{kind}, GPU drained"),
        Some(HeldBack::Unknown) => format!("{kind}, held back"),
    }
}

/// What a request waits for, where that is more than its turn and room.
fn waits_for(wait: &WaitView) -> Option<String> {
    Some(match wait.waits_for? {
        WaitsFor::RoomGathers(gpu) => format!("room gathers on GPU {gpu}"),
        WaitsFor::NothingLeaves => "nothing leaves its GPUs".to_owned(),
        WaitsFor::Growth => "others wait to grow there".to_owned(),
        WaitsFor::Places => "all places for processes are taken".to_owned(),
        WaitsFor::UserPlaces => "its user has half of all places for processes".to_owned(),
        WaitsFor::OthersGpus => "its GPUs are kept for others".to_owned(),
        WaitsFor::Unknown => "for a reason that this mgb does not know".to_owned(),
        WaitsFor::SwapQuota => "idle memory there may not go to the host: quota".to_owned(),
    })
}

/// Who is suspended, and which GPUs are drained; nothing where people have ordered nothing.
fn ordered(view: &NodeView) -> String {
    let mut text = String::new();
    for gpu in view.gpus.iter().filter(|gpu| gpu.lost) {
        let _ = writeln!(
            text,
            "GPU {} is lost: the driver cannot reach it (nvidia-smi); it is shared again once that can",
            gpu.gpu.index
        );
    }
    let is_for_places =
        |wait: &WaitView| matches!(wait.waits_for, Some(WaitsFor::Places | WaitsFor::UserPlaces));
    if view.queue.iter().any(is_for_places) {
        for gpu in view.gpus.iter().filter(|gpu| !gpu.idle.is_empty()) {
            let _ = writeln!(text, "{}", idle(gpu));
        }
    }
    for kept in &view.quotas.kept {
        let _ = writeln!(text, "{}", kept::text(kept));
    }
    for gpu in view.gpus.iter().filter(|gpu| gpu.drained) {
        let left = gpu.reserved_bytes + gpu.reclaiming_bytes;
        let at = gpu.gpu.index;
        let _ = match left {
            0 => writeln!(text, "GPU {at} is drained"),
            left => writeln!(text, "GPU {at} is draining: {} left", Bytes(left)),
        };
    }
    for gpu in &view.gpus {
        let (at, Some(why)) = (gpu.gpu.index, &gpu.fails) else {
            continue;
        };
        let way_out = match gpu.drained {
            true => format!("`mgb drain {at} --end` has it used again"),
            false => "it is used on (--no-health-drain)".to_owned(),
        };
        let _ = writeln!(text, "GPU {at} fails: {why}; {way_out}");
    }
    for one in &view.suspended {
        let evicted = Bytes(one.evicted_bytes.iter().sum());
        let is_left = view.leaving.iter().any(|left| left.pid == one.pid);
        let state = if is_left { "suspending" } else { "suspended" };
        let job = match &one.job {
            Some(job) if one.whole_job => format!(" with its job {job}"),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "process {} is {state}{job}, for {}: {evicted} in host memory",
            one.pid,
            span(one.age_ms)
        );
    }
    for left in view.leaving.iter().filter(|left| left.hindrance.is_some()) {
        let _ = writeln!(text, "{}", wait_evicted::sentence(std::slice::from_ref(left)));
    }
    text
}

/// Who has places on a GPU in vain.
fn idle(gpu: &GpuView) -> String {
    let of = |idle: &IdleView| format!("{} of {}", idle.processes, user::name(idle.uid));
    let of: Vec<String> = gpu.idle.iter().map(of).collect();
    let (at, all) = (gpu.gpu.index, gpu.processes);
    format!(
        "of {all} processes on GPU {at} these run no task: {}",
        of.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use mgb_probe::Class;
    use mgb_probe::view::{NodeView, TaskState};

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
        insta::assert_snapshot!(text(&view));
    }

    #[test]
    fn people_see_what_a_request_waits_for() {
        let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
        let mut said = |waits_for| {
            view.queue[0].waits_for = Some(waits_for);
            let text = text(&view);
            let line = text
                .lines()
                .find(|line| line.contains("phases.cu"))
                .unwrap_or_default();
            line.to_owned()
        };
        assert!(said(WaitsFor::RoomGathers(3)).contains("new, room gathers on GPU 3"));
        assert!(said(WaitsFor::NothingLeaves).contains("new, nothing leaves its GPUs"));
        assert!(said(WaitsFor::Growth).contains("new, others wait to grow there"));
        assert!(said(WaitsFor::UserPlaces).contains("new, its user has half of all places"));
        assert!(said(WaitsFor::Places).contains("new, all places for processes are taken"));
    }

    #[test]
    fn people_see_by_what_rule_memory_is_evicted() {
        let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
        let first = |view: &NodeView| text(view).lines().next().unwrap_or_default().to_owned();
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
        let text = text(&view);
        let line = |with: &str| text.lines().find(|line| line.contains(with)).unwrap_or_default();
        assert!(line("va.cu:main").contains("batch    running"), "{text}");
        assert!(
            line("va.cu:main").contains("1.5 s   2.5 s    13%  va.cu:main"),
            "{text}"
        );
        assert!(line("grow").contains("latency  reclaiming"), "{text}");
    }

    #[test]
    fn people_see_whose_the_time_of_a_gpu_is() {
        let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
        view.tasks[0].share = Some(126);
        let said = text(&view);
        assert!(said.contains("1.5 s    13%  va.cu:main"), "{said}");
        assert!(said.contains("2.0 h      -  grow"), "{said}");
        view.tasks[0].share_due = Some(500);
        let said = text(&view);
        assert!(said.contains("13% of 50%  va.cu:main"), "{said}");
    }

    #[test]
    fn people_see_who_has_more_time_than_he_may() {
        let mut view: NodeView = serde_json::from_str(VIEW).unwrap();
        let line = |view: &NodeView| {
            let text = text(view);
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
        insta::assert_snapshot!(text(&view));
    }
}
