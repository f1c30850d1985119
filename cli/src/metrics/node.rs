//! The metrics of a node, from mgbd's view of it. docs/METRICS.md lists them.

use std::collections::BTreeMap;

use mgb_probe::view::{GpuView, HeldBack, NodeView, PacedFor, TaskState, TaskView, WaitView, WaitsFor};

use super::families::{Families, LabelledValue};
use crate::user;

/// The metrics of a view; `None`: mgbd does not answer.
pub(super) fn families(view: Option<&NodeView>) -> Families {
    let mut families = Families::default();
    families.gauge(
        "mgb_up",
        "Whether mgbd answers.",
        [LabelledValue::plain(f64::from(u8::from(view.is_some())))],
    );
    if let Some(view) = view {
        node(&mut families, view);
        totals(&mut families, view);
        gpus(&mut families, view);
        tasks(&mut families, view);
        queue(&mut families, view);
        users(&mut families, view);
    }
    families
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

fn node(families: &mut Families, view: &NodeView) {
    let labels = vec![
        ("policy", view.policy.clone()),
        ("evicts_by", view.evicts_by.clone().unwrap_or_default()),
        (
            "mps",
            if view.mps_pipe.is_some() { "yes" } else { "no" }.to_owned(),
        ),
    ];
    let info = LabelledValue { labels, value: 1.0 };
    families.gauge("mgb_info", "How mgbd runs, in labels.", [info]);
    let mut plain = |name, help, value| families.gauge(name, help, [LabelledValue::plain(value)]);
    plain(
        "mgb_uptime_seconds",
        "Time since mgbd's start.",
        seconds(view.uptime_ms),
    );
    plain(
        "mgb_clients",
        "Programs that are connected to mgbd.",
        f64::from(view.clients),
    );
    plain(
        "mgb_clients_starting",
        "Of those, that wait for their turn to start the driver or make a context.",
        f64::from(view.starting),
    );
    plain(
        "mgb_suspended_processes",
        "Processes that a person has suspended.",
        (view.suspended.len() as u64 + view.cut.suspended) as f64,
    );
    plain(
        "mgb_view_cut_entries",
        "Tasks and requests that mgbd left out of its view for want of room: sums by state, reason and user lack them.",
        (view.cut.tasks + view.cut.queue) as f64,
    );
}

fn totals(families: &mut Families, view: &NodeView) {
    let counts = &view.counts;
    let all = [
        (
            "mgb_tasks_granted_total",
            "Tasks that were granted room.",
            counts.granted,
        ),
        (
            "mgb_growths_granted_total",
            "Requests of running tasks for more room that were granted.",
            counts.grown,
        ),
        (
            "mgb_requests_refused_total",
            "Requests that were refused.",
            counts.refused,
        ),
        (
            "mgb_evictions_total",
            "Times memory of tasks was evicted to the host.",
            counts.evicted,
        ),
        (
            "mgb_evicted_bytes_total",
            "Bytes that were evicted to the host.",
            counts.evicted_bytes,
        ),
        (
            "mgb_evictions_failed_total",
            "Orders to evict that freed nothing, or were not answered.",
            counts.evictions_failed,
        ),
        (
            "mgb_moves_total",
            "Times a task was moved to another GPU.",
            counts.moved,
        ),
        (
            "mgb_moved_bytes_total",
            "Bytes that were moved to another GPU.",
            counts.moved_bytes,
        ),
        (
            "mgb_moves_failed_total",
            "Orders to move that were not carried out.",
            counts.moves_failed,
        ),
        (
            "mgb_deadlock_swaps_total",
            "Times a waiting task was swapped out, since tasks waited only for each other.",
            counts.swapped_out,
        ),
        (
            "mgb_deaths_holding_total",
            "Processes that a signal ended while they held room.",
            counts.died_holding,
        ),
        (
            "mgb_offenders_total",
            "Clients that were turned away or cut off for breaking the protocol.",
            counts.offenders,
        ),
    ];
    for (name, help, count) in all {
        families.counter(name, help, [LabelledValue::plain(count as f64)]);
    }
}

/// The labels of a GPU as DCGM exporter spells them, so that both can be joined.
fn labels(gpu: &GpuView) -> Vec<(&'static str, String)> {
    vec![
        ("gpu", gpu.gpu.node_index.to_string()),
        ("UUID", gpu.gpu.uuid.clone()),
        ("modelName", gpu.gpu.name.clone()),
    ]
}

fn gpus(families: &mut Families, view: &NodeView) {
    type OfGpu = fn(&GpuView) -> f64;
    let sizes: [(&str, &str, OfGpu); 11] = [
        ("mgb_gpu_memory_bytes", "Memory of the GPU.", |gpu| {
            gpu.gpu.total_bytes as f64
        }),
        (
            "mgb_gpu_memory_usable_bytes",
            "Memory that tasks and contexts can have.",
            |gpu| gpu.gpu.usable_bytes as f64,
        ),
        (
            "mgb_gpu_memory_reserved_bytes",
            "Memory reserved for tasks.",
            |gpu| gpu.reserved_bytes as f64,
        ),
        (
            "mgb_gpu_memory_headroom_bytes",
            "Memory kept for tasks that are expected to take more.",
            |gpu| gpu.headroom_bytes as f64,
        ),
        (
            "mgb_gpu_memory_resident_bytes",
            "Memory that tasks have mapped.",
            |gpu| gpu.resident_bytes as f64,
        ),
        (
            "mgb_gpu_memory_evicted_bytes",
            "Memory of tasks of the GPU that is in the host.",
            |gpu| gpu.evicted_bytes as f64,
        ),
        (
            "mgb_gpu_memory_contexts_bytes",
            "Memory charged for contexts.",
            |gpu| gpu.contexts_bytes as f64,
        ),
        (
            "mgb_gpu_memory_overhead_bytes",
            "Memory that programs under MGB have beside contexts and reservations.",
            |gpu| gpu.overhead_bytes as f64,
        ),
        (
            "mgb_gpu_memory_reclaiming_bytes",
            "Memory of dead processes that is not free yet.",
            |gpu| gpu.reclaiming_bytes as f64,
        ),
        (
            "mgb_gpu_memory_foreign_bytes",
            "Memory of programs that are not under MGB, and of the driver.",
            |gpu| gpu.foreign_bytes as f64,
        ),
        ("mgb_gpu_memory_free_bytes", "Memory that nobody has.", |gpu| {
            gpu.free_bytes() as f64
        }),
    ];
    let others: [(&str, &str, OfGpu); 7] = [
        ("mgb_gpu_warps_charged", "Warps of the tasks that run.", |gpu| {
            gpu.warps_charged as f64
        }),
        ("mgb_gpu_warps_capacity", "Warps that the GPU can hold.", |gpu| {
            gpu.gpu.max_warps as f64
        }),
        (
            "mgb_gpu_processes",
            "Processes that hold room or a context.",
            |gpu| f64::from(gpu.processes),
        ),
        (
            "mgb_gpu_launches_in_flight",
            "Launches not finished yet, as programs say.",
            |gpu| gpu.launches_in_flight as f64,
        ),
        ("mgb_gpu_drained", "Whether the GPU is drained.", |gpu| {
            f64::from(u8::from(gpu.drained))
        }),
        (
            "mgb_gpu_failing",
            "Whether the driver says that the GPU fails.",
            |gpu| f64::from(u8::from(gpu.fails.is_some())),
        ),
        (
            "mgb_gpu_lost",
            "Whether the driver cannot reach the GPU.",
            |gpu| f64::from(u8::from(gpu.lost)),
        ),
    ];
    let each = |of: OfGpu| {
        let value = move |gpu: &GpuView| LabelledValue {
            labels: labels(gpu),
            value: of(gpu),
        };
        view.gpus.iter().map(value)
    };
    for (name, help, of) in sizes.into_iter().chain(others) {
        families.gauge(name, help, each(of));
    }
    families.counter(
        "mgb_gpu_busy_seconds_total",
        "Time in which programs under MGB had work on the GPU, as mgbd has sampled.",
        each(|gpu| seconds(gpu.busy_ms)),
    );
}

/// The words of the label `state`.
fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::Growing => "growing",
        TaskState::Ended => "ended",
        TaskState::Moving => "moving",
        TaskState::Evicting => "evicting",
        TaskState::Evicted => "evicted",
        TaskState::Restoring => "restoring",
        TaskState::Suspending => "suspending",
        TaskState::Suspended => "suspended",
        TaskState::Reclaiming => "reclaiming",
        TaskState::Unknown => "unknown",
    }
}

fn tasks(families: &mut Families, view: &NodeView) {
    let counts = view.gpus.iter().flat_map(|gpu| {
        let mut counts: BTreeMap<&'static str, u32> = BTreeMap::new();
        let there = view.tasks.iter().filter(|task| task.gpu == gpu.gpu.index);
        there.for_each(|task| *counts.entry(state(task.state)).or_default() += 1);
        counts.into_iter().map(|(state, count)| {
            let mut labels = labels(gpu);
            labels.push(("state", state.to_owned()));
            LabelledValue {
                labels,
                value: f64::from(count),
            }
        })
    });
    families.gauge("mgb_gpu_tasks", "Tasks that hold room, by what they do.", counts);
    let held = |task: &&TaskView| task.pace.is_some_and(PacedFor::is_hold);
    families.gauge(
        "mgb_tasks_launches_held",
        "Tasks whose process's launches are held for others.",
        [LabelledValue::plain(view.tasks.iter().filter(held).count() as f64)],
    );
}

/// The words of the label `reason`.
fn reason(wait: &WaitView) -> &'static str {
    match wait.held_back {
        Some(HeldBack::Suspended) => "suspended",
        Some(HeldBack::Drained) => "drained",
        Some(HeldBack::Unknown) => "unknown",
        None if wait.over_quota => "quota",
        None if wait.gpu_lost => "gpu_lost",
        None => match wait.waits_for {
            None => "room_or_turn",
            Some(WaitsFor::RoomGathers(_)) => "room_gathers",
            Some(WaitsFor::NothingLeaves) => "nothing_leaves",
            Some(WaitsFor::Growth) => "growth_of_others",
            Some(WaitsFor::Places) => "places",
            Some(WaitsFor::UserPlaces) => "user_places",
            Some(WaitsFor::SwapQuota) => "swap_quota",
            Some(WaitsFor::OthersGpus) => "others_gpus",
            Some(WaitsFor::OwnGpu) => "own_gpu",
            Some(WaitsFor::KeptAlone) => "kept_alone",
            Some(WaitsFor::GathersFor(_)) => "gathers_for_other",
            Some(WaitsFor::Unknown) => "unknown",
        },
    }
}

fn queue(families: &mut Families, view: &NodeView) {
    let mut counts: BTreeMap<&'static str, u32> = BTreeMap::new();
    for wait in &view.queue {
        *counts.entry(reason(wait)).or_default() += 1;
    }
    let all = view.queue.len() as u64 + view.cut.queue;
    families.gauge(
        "mgb_queue_requests",
        "Requests that wait.",
        [LabelledValue::plain(all as f64)],
    );
    let by_reason = counts.into_iter().map(|(reason, count)| LabelledValue {
        labels: vec![("reason", reason.to_owned())],
        value: f64::from(count),
    });
    families.gauge(
        "mgb_queue_requests_by_reason",
        "Requests that wait, by what they wait for.",
        by_reason,
    );
    let bytes = view.queue.iter().map(|wait| wait.bytes as f64).sum();
    families.gauge(
        "mgb_queue_wanted_bytes",
        "Bytes that the waiting requests ask for.",
        [LabelledValue::plain(bytes)],
    );
    let oldest = view.queue.iter().map(|wait| wait.waited_ms).max().unwrap_or(0);
    families.gauge(
        "mgb_queue_oldest_seconds",
        "For how long the oldest request waits.",
        [LabelledValue::plain(seconds(oldest))],
    );
}

/// What a user has on the node.
#[derive(Default)]
struct UserSums {
    reserved: u64,
    evicted: u64,
    tasks: u32,
    waiting: u32,
}

fn users(families: &mut Families, view: &NodeView) {
    let mut users: BTreeMap<u32, UserSums> = BTreeMap::new();
    let living = view
        .tasks
        .iter()
        .filter(|task| task.state != TaskState::Reclaiming);
    for task in living {
        let sums = users.entry(task.uid).or_default();
        sums.reserved = sums.reserved.saturating_add(task.reserved_bytes);
        sums.evicted = sums.evicted.saturating_add(task.evicted_bytes);
        sums.tasks += 1;
    }
    for wait in &view.queue {
        users.entry(wait.uid).or_default().waiting += 1;
    }
    let named: Vec<(String, UserSums)> = users
        .into_iter()
        .map(|(uid, sums)| (user::name(uid), sums))
        .collect();
    type OfUser = fn(&UserSums) -> f64;
    let all: [(&str, &str, OfUser); 4] = [
        (
            "mgb_user_memory_reserved_bytes",
            "Memory reserved for the tasks of a user.",
            |sums| sums.reserved as f64,
        ),
        (
            "mgb_user_memory_evicted_bytes",
            "Memory of a user's tasks that is in the host.",
            |sums| sums.evicted as f64,
        ),
        ("mgb_user_tasks", "Tasks of a user that hold room.", |sums| {
            f64::from(sums.tasks)
        }),
        (
            "mgb_user_queue_requests",
            "Requests of a user that wait.",
            |sums| f64::from(sums.waiting),
        ),
    ];
    for (name, help, of) in all {
        let values = named.iter().map(|(user, sums)| LabelledValue {
            labels: vec![("user", user.clone())],
            value: of(sums),
        });
        families.gauge(name, help, values);
    }
}
