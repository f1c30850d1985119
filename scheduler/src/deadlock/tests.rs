//! The rule on small nodes.

use super::*;

fn holder(client: ClientId, gpu: usize, bytes: u64) -> GpuProcess {
    GpuProcess {
        client,
        is_batch: true,
        gpu,
        reserved: bytes,
        swappable: bytes,
        waits: true,
        present: bytes > 0,
        still: true,
        alone: false,
    }
}

fn blocked(client: ClientId, gpus: u64, own: u64) -> Blocked {
    Blocked {
        client,
        is_batch: true,
        gpus: GpuSet::from_bits(gpus),
        bytes: 4,
        own,
        alone: false,
        aged: false,
    }
}

const FULL: GpuRoom = GpuRoom {
    left: 0,
    hidden: 0,
    context: 0,
    reclaiming: false,
    full: false,
};

fn swap(client: ClientId, gpu: usize, whose: ClientId) -> Option<Remedy> {
    Some(Remedy::Swap { client, gpu, whose })
}

#[test]
fn the_most_junior_makes_room_for_the_most_senior() {
    let holders = [holder(1, 0, 5), holder(2, 0, 5), holder(3, 0, 5)];
    let requests = [blocked(3, 1, 5), blocked(1, 1, 5), blocked(2, 1, 5)];
    assert_eq!(resolve(&holders, &requests, &[FULL]), swap(3, 0, 1));
}

#[test]
fn latency_programs_are_senior_to_all_batch_programs() {
    let mut holders = [holder(1, 0, 5), holder(2, 0, 5), holder(3, 0, 5)];
    let mut requests = [blocked(1, 1, 5), blocked(2, 1, 5), blocked(3, 1, 5)];
    (holders[2].is_batch, requests[2].is_batch) = (false, false);
    assert_eq!(resolve(&holders, &requests, &[FULL]), swap(2, 0, 3));
    // Nor does the youngest make room for a batch program that can have it of another one.
    assert_eq!(resolve(&holders[1..], &requests[1..], &[FULL]), swap(2, 0, 3));
    // Where no memory can leave, a batch program is refused.
    holders.iter_mut().for_each(|holder| holder.swappable = 0);
    assert_eq!(
        resolve(&holders, &requests, &[FULL]),
        Some(Remedy::Refuse { client: 2 })
    );
}

#[test]
fn nobody_is_disturbed_while_somebody_can_go_on() {
    let mut holders = [holder(1, 0, 5), holder(2, 0, 5)];
    let requests = [blocked(1, 1, 5)];
    holders[1].waits = false;
    assert_eq!(resolve(&holders, &requests, &[FULL]), None);
    holders[1].waits = true;
    let soon = GpuRoom {
        reclaiming: true,
        ..FULL
    };
    assert_eq!(
        resolve(&holders, &requests, &[soon]),
        None,
        "room is about to come back"
    );
}

#[test]
fn a_newcomer_disturbs_nobody() {
    assert_eq!(resolve(&[holder(1, 0, 5)], &[blocked(2, 1, 0)], &[FULL]), None);
}

#[test]
fn what_foreign_programs_hold_is_waited_for() {
    for (left, hidden) in [(4, 0), (3, 1), (0, 9)] {
        let room = GpuRoom { left, hidden, ..FULL };
        assert_eq!(resolve(&[holder(1, 0, 5)], &[blocked(1, 1, 5)], &[room]), None);
    }
}

/// What processes take beyond their contexts looks like this: nobody waits for it to go away while a swap
/// helps.
#[test]
fn what_is_outside_the_ledger_does_not_keep_a_ring_closed() {
    let room = GpuRoom {
        left: 3,
        hidden: 2,
        ..FULL
    };
    let holders = [holder(1, 0, 5), holder(2, 0, 5)];
    let requests = [blocked(1, 1, 5), blocked(2, 1, 5)];
    assert_eq!(resolve(&holders, &requests, &[room]), swap(2, 0, 1));
}

#[test]
fn alone_it_makes_room_with_its_other_tasks() {
    let way = swap(1, 0, 1);
    assert_eq!(resolve(&[holder(1, 0, 9)], &[blocked(1, 1, 5)], &[FULL]), way);
    assert_eq!(resolve(&[holder(1, 0, 8)], &[blocked(1, 1, 0)], &[FULL]), way);
}

#[test]
fn a_ring_over_two_gpus_is_broken() {
    let holders = [holder(1, 0, 5), holder(2, 1, 5)];
    let requests = [blocked(1, 0b10, 0), blocked(2, 0b01, 0)];
    assert_eq!(resolve(&holders, &requests, &[FULL; 2]), swap(2, 1, 1));
}

#[test]
fn any_gpu_that_moves_is_worth_waiting_for() {
    let mut holders = [holder(1, 0, 5), holder(2, 1, 5)];
    holders[1].waits = false;
    assert_eq!(resolve(&holders, &[blocked(1, 0b11, 0)], &[FULL; 2]), None);
}

#[test]
fn a_senior_lets_a_junior_through_whose_context_is_in_its_way() {
    // Client 1 cannot fit before client 2 is gone, and 2 holds no memory.
    let holders = [holder(1, 0, 20), holder(2, 0, 0)];
    let requests = [blocked(1, 1, 20), blocked(2, 1, 0)];
    assert_eq!(resolve(&holders, &requests, &[FULL]), swap(1, 0, 2));
}

#[test]
fn who_cannot_swap_is_refused_rather_than_waited_for() {
    let mut holders = [holder(1, 0, 5), holder(2, 0, 5)];
    let requests = [blocked(1, 1, 5), blocked(2, 1, 5)];
    holders[1].swappable = 0;
    // First the senior makes room, then nobody can.
    assert_eq!(resolve(&holders, &requests, &[FULL]), swap(1, 0, 2));
    holders[0] = holder(1, 0, 0);
    let requests = [
        Blocked {
            bytes: 9,
            ..blocked(1, 1, 0)
        },
        blocked(2, 1, 5),
    ];
    assert_eq!(
        resolve(&holders, &requests, &[FULL]),
        Some(Remedy::Refuse { client: 2 })
    );
    holders[1].waits = false;
    assert_eq!(resolve(&holders, &requests, &[FULL]), None);
}

#[test]
fn one_that_wants_to_be_alone_is_let_in_where_all_others_wait() {
    let room = GpuRoom { left: 9, ..FULL };
    let mut holders = [holder(1, 0, 5), holder(2, 0, 5)];
    let alone = Blocked {
        alone: true,
        ..blocked(2, 1, 0)
    };
    let way = |client| Some(Remedy::Admit { client, gpu: 0 });
    // The senior one waits for something that no swap makes.
    let senior = Blocked {
        bytes: 99,
        ..blocked(1, 1, 0)
    };
    assert_eq!(resolve(&holders, &[alone, senior], &[room]), way(2));
    // Not while a task without room goes on there, and nobody is swapped for it.
    holders[0].still = false;
    assert_eq!(resolve(&holders, &[alone, senior], &[room]), None);
    holders[0].still = true;
    assert_eq!(
        resolve(&holders, &[alone], &[room]),
        None,
        "the other does not wait"
    );
}

#[test]
fn nobody_is_let_in_beside_one_that_is_alone_before_swaps_have_failed() {
    let mut holders = [holder(1, 0, 5), holder(2, 1, 5), holder(2, 0, 0)];
    holders[0].alone = true;
    let rooms = [GpuRoom { left: 9, ..FULL }, FULL];
    let requests = [blocked(1, 0b10, 0), blocked(2, 0b01, 0)];
    assert_eq!(resolve(&holders, &requests, &rooms), swap(2, 1, 1));
    holders[1].swappable = 0;
    let way = Some(Remedy::Admit { client: 2, gpu: 0 });
    assert_eq!(resolve(&holders, &requests, &rooms), way);
    holders[0].waits = false;
    assert_eq!(resolve(&holders, &requests, &rooms), None);
}

#[test]
fn a_newcomer_that_waited_very_long_begins_where_all_others_wait() {
    let room = GpuRoom { left: 9, ..FULL };
    let aged = Blocked {
        alone: true,
        aged: true,
        ..blocked(2, 1, 0)
    };
    let holders = [holder(1, 0, 5)];
    let way = Some(Remedy::Admit { client: 2, gpu: 0 });
    assert_eq!(
        beside(&holders, &[aged], &[room]),
        None,
        "the other does not wait"
    );
    assert_eq!(beside(&holders, &[aged, blocked(1, 1, 5)], &[room]), way);
    let full = [GpuRoom { full: true, ..room }];
    assert_eq!(beside(&holders, &[aged, blocked(1, 1, 5)], &full), None);
}

#[test]
fn what_cannot_be_made_keeps_nobody_waiting() {
    let holders = [holder(1, 0, 5), holder(2, 0, 3), holder(2, 1, 9)];
    let can = |over_elders| can_make_room(&holders, &blocked(2, 1, 3), &[FULL; 2], 0, over_elders);
    assert!(!can(false), "its own growing task does not help it");
    assert!(can(true));
}
