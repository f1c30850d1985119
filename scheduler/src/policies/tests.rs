//! Policies on small views.

mod alone;
mod hard;
mod load;
mod order;

use std::time::Duration;

use mgb_interface::{PolicyError, WaitOrder};

use super::*;
use crate::client::ClientSet;
use crate::gpu_set::GpuSet;
use crate::node::test_multiprocessors;
use crate::sms::{Sms, TaskLaunch};

/// The time at which everything happens.
const NOW: Duration = Duration::from_secs(1000);

/// A context on a GPU that is not in the view.
const ELSEWHERE: u64 = 1 << 60;

/// When somebody came who has waited for so many seconds.
fn ago(seconds: u64) -> Duration {
    NOW - Duration::from_secs(seconds)
}

fn gpu(room: u64) -> GpuState {
    GpuState {
        room,
        context_bytes: 1,
        max_warps: 100,
        warps: 0,
        active_warps: 0,
        foreign_warps: 0,
        processes: 0,
        expected: 0,
        max_processes: 48,
        present: 0,
        present_by: ClientSet::Empty,
        alone_by: ClientSet::Empty,
        growth_waits: false,
        growth_aged: false,
        stalled: false,
        claim: None,
        resting: false,
    }
}

fn waiter(client: u64, bytes: u64, warps: u32) -> Waiter {
    Waiter {
        client,
        gpus: GpuSet::ALL,
        contexts: GpuSet::EMPTY,
        alone: false,
        bytes,
        launch: TaskLaunch {
            blocks: warps,
            threads: 32,
            ..TaskLaunch::default()
        },
        since: NOW,
        expected: Duration::MAX,
        deadline: None,
        priority: 0,
        gathers: Some(0),
    }
}

fn place(policy: &str, gpus: &[GpuState], waiting: &[Waiter]) -> Vec<(usize, usize)> {
    let policy: Policy = policy.parse().unwrap();
    serve(policy, policy.serves(None).unwrap(), gpus, &idle(gpus), waiting)
}

/// Multiprocessors on which nothing runs.
fn idle(gpus: &[GpuState]) -> Vec<Sms> {
    gpus.iter().map(|_| Sms::new(test_multiprocessors())).collect()
}

fn serve(
    policy: Policy,
    queue: Queue,
    gpus: &[GpuState],
    sms: &[Sms],
    waiting: &[Waiter],
) -> Vec<(usize, usize)> {
    let view = View {
        is_ordered: false,
        gpus,
        sms,
        waiting,
        now: NOW,
        patience: Duration::from_secs(10),
    };
    super::place(policy, &view, queue)
        .into_iter()
        .map(|placed| (placed.waiter, placed.gpu))
        .collect()
}

#[test]
fn names_are_read_and_wrong_ones_explained() {
    let error = "fifo".parse::<Policy>().unwrap_err().to_string();
    assert_eq!(
        error,
        format!("unknown policy `fifo`; known are {}", Policy::NAMES)
    );
    assert_eq!("schedgpu:fifo".parse(), Ok(Policy::SchedGpu(WaitOrder::Fifo)));
    assert!(matches!(
        "schedgpu:lifo".parse::<Policy>(),
        Err(PolicyError::Way(_))
    ));
    for name in ["cg", "cg:", "cg:0", "cg:x", "cg:9999"] {
        assert!(
            matches!(name.parse::<Policy>(), Err(PolicyError::Number(_))),
            "{name}"
        );
    }
    assert!(matches!("cgx".parse::<Policy>(), Err(PolicyError::Unknown(_))));
}

#[test]
fn alg3_spreads_by_warps_and_never_beyond_memory() {
    let gpus = [gpu(10), gpu(10)];
    let jobs = [
        waiter(1, 4, 50),
        waiter(2, 4, 10),
        waiter(3, 4, 10),
        waiter(4, 4, 10),
        waiter(5, 4, 1),
    ];
    // The third fills GPU 1 (2 × (4 + 1)); the fourth only fits on GPU 0.
    assert_eq!(place("alg3", &gpus, &jobs), [(0, 0), (1, 1), (2, 1), (3, 0)]);
    assert_eq!(place("mgb", &gpus, &jobs), place("alg3", &gpus, &jobs));
}

#[test]
fn a_giant_grid_counts_as_what_the_gpu_holds() {
    let busy = GpuState {
        warps: 100,
        ..gpu(100)
    };
    // Clipped to 100 warps, the first GPU ties with the busy one after one task.
    let jobs = [
        waiter(1, 4, u32::MAX),
        waiter(2, 4, u32::MAX),
        waiter(3, 4, u32::MAX),
    ];
    assert_eq!(place("alg3", &[gpu(100), busy], &jobs), [(0, 0), (1, 1), (2, 0)]);
}

#[test]
fn a_process_pays_one_context() {
    let jobs = [waiter(1, 4, 1), waiter(1, 5, 1), waiter(2, 1, 1)];
    assert_eq!(place("alg3", &[gpu(10)], &jobs), [(0, 0), (1, 0)]);
}

#[test]
fn later_ones_pass_the_first_until_it_is_old() {
    let gpus = [gpu(10)];
    let mut jobs = [waiter(1, 20, 1), waiter(2, 4, 1), waiter(3, 4, 1)];
    assert_eq!(place("alg3", &gpus, &jobs), [(1, 0), (2, 0)]);
    jobs[0].since = ago(10);
    assert_eq!(place("alg3", &gpus, &jobs), []);
    // Who already holds memory may still pass, so that it gets done.
    jobs[1].contexts = GpuSet::from_bits(ELSEWHERE);
    assert_eq!(place("alg3", &gpus, &jobs), [(1, 0)]);
    jobs[0].since = ago(40);
    assert_eq!(place("alg3", &gpus, &jobs), []);
    // Unless nobody there can go on otherwise.
    let stalled = [GpuState {
        stalled: true,
        ..gpu(10)
    }];
    assert_eq!(place("alg3", &stalled, &jobs), [(1, 0)]);
}

#[test]
fn an_old_first_keeps_only_gpus_it_may_use() {
    let mut jobs = [waiter(1, 20, 1), waiter(2, 4, 1)];
    jobs[0].since = ago(11);
    jobs[0].gpus = GpuSet::from_bits(0b01);
    assert_eq!(place("alg3", &[gpu(10), gpu(10)], &jobs), [(1, 1)]);
}

#[test]
fn an_old_first_keeps_the_one_gpu_where_room_gathers() {
    let mut jobs = [waiter(1, 20, 1), waiter(2, 9, 1), waiter(3, 9, 1)];
    jobs[0].since = ago(40);
    jobs[0].gathers = Some(1);
    assert_eq!(place("alg3", &[gpu(10), gpu(10)], &jobs), [(1, 0)]);
    jobs[1].contexts = GpuSet::from_bits(0b11);
    assert_eq!(place("alg3", &[gpu(10), gpu(10)], &jobs), [(1, 0)]);
    // Where it has been given up, others go anywhere.
    jobs[0].gathers = None;
    assert_eq!(place("alg3", &[gpu(10), gpu(10)], &jobs), [(1, 0), (2, 1)]);
}

#[test]
fn nobody_new_begins_where_somebody_waits_to_grow() {
    let gpus = [GpuState {
        growth_waits: true,
        ..gpu(10)
    }];
    let mut jobs = [waiter(1, 4, 1), waiter(2, 4, 1)];
    jobs[1].contexts = GpuSet::from_bits(1);
    assert_eq!(place("alg3", &gpus, &jobs), [(1, 0)]);
}

#[test]
fn who_asks_for_no_memory_begins_beside_a_growth_after_the_patience() {
    let gpus = [GpuState {
        growth_waits: true,
        growth_aged: true,
        ..gpu(10)
    }];
    let mut jobs = [waiter(1, 0, 1), waiter(2, 1, 1)];
    assert_eq!(place("alg3", &gpus, &jobs), []);
    (jobs[0].since, jobs[1].since) = (ago(10), ago(10));
    assert_eq!(place("alg3", &gpus, &jobs), [(0, 0)]);
}

#[test]
fn the_number_of_processes_is_bounded() {
    let gpus = [GpuState {
        processes: 48,
        ..gpu(10)
    }];
    assert_eq!(place("alg3", &gpus, &[waiter(1, 4, 1)]), []);
}

#[test]
fn sa_gives_each_process_a_gpu() {
    let gpus = [gpu(0), gpu(0)];
    let jobs = [
        waiter(1, 1 << 60, 1),
        waiter(1, 1, 1),
        waiter(2, 1, 1),
        waiter(3, 1, 1),
    ];
    assert_eq!(place("sa", &gpus, &jobs), [(0, 0), (1, 0), (2, 1)]);
    let taken = [
        GpuState {
            processes: 1,
            ..gpu(0)
        },
        GpuState {
            processes: 1,
            ..gpu(0)
        },
    ];
    assert_eq!(place("sa", &taken, &jobs), []);
}

#[test]
fn cg_fills_in_turn() {
    let gpus = [gpu(0), gpu(0)];
    let jobs: Vec<Waiter> = (1..=5).map(|client| waiter(client, 1, 1)).collect();
    assert_eq!(place("cg:2", &gpus, &jobs), [(0, 0), (1, 1), (2, 0), (3, 1)]);
}
