//! `mgb` on load as it is.

use super::*;
use crate::gpu_set::GpuSet;

fn loaded(warps: u64, active_warps: u64) -> GpuState {
    GpuState {
        warps,
        active_warps,
        ..gpu(100)
    }
}

#[test]
fn a_gpu_on_which_programs_outside_work_is_loaded() {
    let foreign = GpuState {
        foreign_warps: 100,
        ..gpu(100)
    };
    let own = GpuState {
        warps: 50,
        active_warps: 50,
        processes: 1,
        ..gpu(100)
    };
    assert_eq!(place("mgb", &[foreign, own], &[waiter(1, 1, 1)]), [(0, 1)]);
}

#[test]
fn mgb_goes_where_least_is_under_way_whatever_is_charged() {
    let gpus = [loaded(60, 60), loaded(100, 10)];
    assert_eq!(place("mgb", &gpus, &[waiter(1, 1, 1)]), [(0, 1)]);
    assert_eq!(place("alg3", &gpus, &[waiter(1, 1, 1)]), [(0, 0)]);
    // What begins counts from then on: the second finds as much on both, and less charged on the first.
    let jobs = [waiter(1, 1, 50), waiter(2, 1, 1)];
    assert_eq!(place("mgb", &gpus, &jobs), [(0, 1), (1, 0)]);
}

#[test]
fn mgb_prefers_a_context_where_loads_are_close() {
    let gpus = [loaded(20, 20), loaded(24, 24)];
    let mut job = waiter(1, 1, 1);
    assert_eq!(place("mgb", &gpus, &[job]), [(0, 0)]);
    job.contexts = GpuSet::from_bits(0b10);
    assert_eq!(place("mgb", &gpus, &[job]), [(0, 1)]);
    let gpus = [loaded(20, 20), loaded(26, 26)];
    assert_eq!(place("mgb", &gpus, &[job]), [(0, 0)], "not at any price");
}

#[test]
fn mgb_takes_the_most_room_among_equals() {
    let gpus = [gpu(40), gpu(90), gpu(60)];
    assert_eq!(place("mgb", &gpus, &[waiter(1, 1, 1)]), [(0, 1)]);
    // What is charged and who is there count first.
    let gpus = [
        gpu(40),
        GpuState {
            processes: 1,
            ..gpu(90)
        },
    ];
    assert_eq!(place("mgb", &gpus, &[waiter(1, 1, 1)]), [(0, 0)]);
}

#[test]
fn what_is_expected_counts_among_gpus_without_a_process() {
    let expected = |room, processes, expected| GpuState {
        processes,
        expected,
        ..gpu(room)
    };
    let job = [waiter(1, 1, 1)];
    for policy in ["mgb", "alg3"] {
        let gpus = [expected(90, 0, 2), expected(90, 0, 1), expected(90, 0, 2)];
        assert_eq!(place(policy, &gpus, &job), [(0, 1)]);
        let gpus = [expected(40, 1, 0), expected(40, 0, 9)];
        assert_eq!(place(policy, &gpus, &job), [(0, 1)], "nobody is there yet");
    }
    let gpus = [expected(40, 1, 0), expected(90, 1, 9)];
    assert_eq!(
        place("mgb", &gpus, &job),
        [(0, 1)],
        "room counts where somebody is"
    );
}
