//! What people order of GPUs: that they are drained, and used again.

use mgb_probe::view::{HeldBack, Hindrance};
use mgb_probe::wire::Order;

use super::control::{NOBODY, begin, broker, granted, idle, obey, order};
use super::*;

#[test]
fn a_drained_gpu_takes_nobody_and_empties_as_programs_go_idle() {
    let mut broker = broker(&[100 * MIB, 100 * MIB]);
    for client in [1, 2] {
        begin(&mut broker, client, 60, seconds(0));
    }
    assert_eq!(
        granted(&mut broker, &mut Snapshot::default(), seconds(0)).len(),
        2
    );
    let on = |broker: &Broker, client| {
        broker
            .ledger()
            .tasks_of(client)
            .next()
            .map(|(_, holding)| holding.gpu)
    };
    let there = on(&broker, 1).unwrap();
    assert_eq!(order(&mut broker, Op::Drain, 0, 2, seconds(1)), Reply::Unknown);
    assert_eq!(
        order(&mut broker, Op::Drain, 0, there as u64, seconds(1)),
        Reply::Done
    );
    assert_eq!(
        order(&mut broker, Op::Drain, 0, there as u64, seconds(1)),
        Reply::Unchanged
    );

    // Who is at work goes on, and grows.
    let mut busy = idle(&[1], there, Duration::ZERO);
    broker.request(1, 0, request(Op::Grow, 1, MIB, 1), seconds(2));
    assert_eq!(granted(&mut broker, &mut busy, seconds(2)), [1]);
    assert_eq!(broker.take_orders(), []);
    assert_eq!(broker.leaving_views()[0].hindrance, Some(Hindrance::Busy));
    // A newcomer fits beside it, and goes to the other GPU.
    begin(&mut broker, 3, 30, seconds(3));
    assert_eq!(granted(&mut broker, &mut busy, seconds(3)), [3]);
    assert_eq!(on(&broker, 3), Some(1 - there));
    // One that can go nowhere else waits.
    broker.arrive(4, 400);
    let only = Request {
        gpus: 1 << there,
        ..request(Op::Begin, 1, MIB, 4)
    };
    assert_eq!(broker.request(4, 0, only, seconds(3)), None);
    assert_eq!(granted(&mut broker, &mut busy, seconds(3)), NOBODY);
    assert_eq!(
        broker.wait_views(seconds(3))[0].held_back,
        Some(HeldBack::Drained)
    );

    // Idle at last, it leaves, and returns after the drain only.
    assert_eq!(
        granted(&mut broker, &mut idle(&[1], there, seconds(1)), seconds(5)),
        NOBODY
    );
    let orders = obey(&mut broker, 1, 61 * MIB, seconds(6));
    assert_eq!(orders, [Order::Evict { gpu: there as u32 }]);
    assert!(!broker.presses());
    broker.request(1, 0, request(Op::Grow, 1, 61 * MIB, 1), seconds(7));
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(7)), NOBODY);
    assert_eq!(
        order(&mut broker, Op::EndDrain, 0, there as u64, seconds(8)),
        Reply::Done
    );
    let mut back = granted(&mut broker, &mut Snapshot::default(), seconds(8));
    back.sort_unstable();
    assert_eq!(back, [1, 4]);
}

#[test]
fn where_all_gpus_are_drained_requests_wait() {
    let mut broker = broker(&[100 * MIB, 200 * MIB]);
    begin(&mut broker, 1, 150, seconds(0));
    for gpu in [0, 1] {
        assert_eq!(order(&mut broker, Op::Drain, 0, gpu, seconds(0)), Reply::Done);
    }
    assert_eq!(
        granted(&mut broker, &mut Snapshot::default(), seconds(100)),
        NOBODY
    );
    assert!(broker.has_drained());
    // It does not fit on the one that is used again.
    assert_eq!(order(&mut broker, Op::EndDrain, 0, 0, seconds(101)), Reply::Done);
    assert_eq!(
        granted(&mut broker, &mut Snapshot::default(), seconds(101)),
        NOBODY
    );
    assert_eq!(
        broker.wait_views(seconds(101))[0].held_back,
        Some(HeldBack::Drained)
    );
    assert_eq!(order(&mut broker, Op::EndDrain, 0, 1, seconds(102)), Reply::Done);
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(102)), [1]);
}

/// A request that waits while a GPU is drained may go there again after.
#[test]
fn a_request_that_waits_may_go_to_a_gpu_that_is_used_again() {
    let mut broker = broker(&[100 * MIB, 100 * MIB]);
    assert_eq!(order(&mut broker, Op::Drain, 0, 1, seconds(0)), Reply::Done);
    for client in [1, 2] {
        begin(&mut broker, client, 60, seconds(0));
    }
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(0)), [1]);
    let wait = &broker.wait_views(seconds(1))[0];
    assert_eq!(
        (wait.gpu, wait.held_back),
        (Some(0), None),
        "it waits for room on the other"
    );
    order(&mut broker, Op::EndDrain, 0, 1, seconds(1));
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(1)), [2]);
}
