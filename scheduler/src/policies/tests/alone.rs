//! Tasks that want a GPU for themselves.

use super::*;
use crate::gpu_set::GpuSet;

/// One that wants to be alone.
fn alone(client: u64) -> Waiter {
    Waiter {
        alone: true,
        ..waiter(client, 1, 1)
    }
}

fn with_company(present: u32) -> GpuState {
    GpuState {
        present,
        present_by: ClientSet::Several,
        ..gpu(10)
    }
}

#[test]
fn it_goes_where_nobody_is_and_nobody_follows() {
    let gpus = [with_company(1), gpu(10)];
    let jobs = [alone(1), waiter(2, 1, 1), waiter(3, 1, 1)];
    assert_eq!(place("mgb", &gpus, &jobs), [(0, 1), (1, 0), (2, 0)]);
    // Nor does it follow those who begin in the same round; its own process may.
    let jobs = [waiter(2, 1, 9), alone(1), waiter(1, 1, 1), waiter(3, 1, 1)];
    assert_eq!(
        place("mgb", &[gpu(10), gpu(10)], &jobs),
        [(0, 0), (1, 1), (2, 1), (3, 0)]
    );
}

#[test]
fn others_keep_off_a_gpu_that_somebody_has_for_himself() {
    let taken = GpuState {
        alone_by: ClientSet::One(1),
        present_by: ClientSet::One(1),
        ..gpu(10)
    };
    let jobs = [waiter(2, 1, 1)];
    assert_eq!(place("mgb", &[taken], &jobs), []);
    assert_eq!(place("mgb", &[taken, gpu(10)], &jobs), [(0, 1)]);
    // Its own process may go on there.
    assert_eq!(place("mgb", &[taken], &[waiter(1, 1, 1)]), [(0, 0)]);
}

#[test]
fn others_pass_it_until_it_is_old_and_then_leave_it_one_gpu() {
    let gpus = [with_company(2), with_company(1)];
    let mut jobs = [alone(1), alone(2), waiter(3, 1, 1), waiter(4, 1, 1)];
    (jobs[0].gathers, jobs[1].gathers) = (Some(1), None);
    assert_eq!(place("mgb", &gpus, &jobs), [(2, 0), (3, 1)]);
    jobs[0].since = ago(10);
    // The GPU where room gathers is left to it, and the next of its kind keeps no other.
    assert_eq!(place("mgb", &gpus, &jobs), [(2, 0), (3, 0)]);
    jobs[1].since = ago(10);
    assert_eq!(place("mgb", &gpus, &jobs), [(2, 0), (3, 0)]);
    // Who has something passes it for some time longer.
    jobs[3].contexts = GpuSet::from_bits(ELSEWHERE);
    assert_eq!(place("mgb", &gpus, &jobs), [(2, 0), (3, 1)]);
    jobs[0].since = ago(40);
    assert_eq!(place("mgb", &gpus, &jobs), [(2, 0), (3, 0)]);
}

#[test]
fn several_that_may_not_go_to_one_place_keep_one_each() {
    let gpus = [with_company(1), with_company(1), with_company(1)];
    let old = |client, gpus| Waiter {
        since: ago(10),
        gpus: GpuSet::from_bits(gpus),
        gathers: (client < 3).then_some(client as usize - 1),
        ..alone(client)
    };
    let jobs = [old(1, 0b001), old(2, 0b110), old(3, 0b111), waiter(4, 1, 1)];
    assert_eq!(place("mgb", &gpus, &jobs), [(3, 2)]);
}

#[test]
fn policies_without_memory_know_nothing_of_it() {
    let jobs = [waiter(1, 1, 1), alone(2), waiter(3, 1, 1)];
    assert_eq!(place("sa", &[gpu(0), gpu(0)], &jobs), [(0, 0), (1, 1)]);
    assert_eq!(place("cg:3", &[gpu(0)], &jobs), [(0, 0), (1, 0), (2, 0)]);
}
