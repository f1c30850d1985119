//! Memory of programs that people wait for: it stays, and others make room for it at once.

use mgb_probe::limited::Limited;
use mgb_probe::wire::Order;

use super::control::{NOBODY, begin, broker, granted, idle, obey, order};
use super::*;
use crate::quota::{Account, Limits, Owner};

/// For how long who is idle has been idle at least.
const IDLE: Duration = crate::eviction::LEAST_IDLE;

/// What a snapshot shows where these clients are latency programs.
fn with_latency(mut snapshot: Snapshot, latency: &[ClientId]) -> Snapshot {
    snapshot.latency = latency.iter().copied().collect();
    snapshot
}

/// Who was ordered what since the last call.
fn orders(broker: &mut Broker) -> Vec<(ClientId, Order)> {
    let orders = broker.take_orders().into_iter();
    orders.map(|order| (order.client, order.order)).collect()
}

/// A GPU on which client 1 has 60 of 100 MiB.
fn one_there() -> Broker {
    let mut broker = broker(&[100 * MIB]);
    begin(&mut broker, 1, 60, seconds(0));
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(0)), [1]);
    broker
}

#[test]
fn its_memory_stays_however_long_batch_programs_wait() {
    let mut broker = one_there();
    begin(&mut broker, 2, 60, seconds(0));
    for second in [1, 10, 100, 1000] {
        let mut seen = with_latency(idle(&[1], 0, seconds(second)), &[1]);
        assert_eq!(granted(&mut broker, &mut seen, seconds(second)), NOBODY);
        assert_eq!(orders(&mut broker), []);
    }
    // A program whose user may have none is none.
    let mut seen = idle(&[1], 0, seconds(1001));
    assert_eq!(granted(&mut broker, &mut seen, seconds(1001)), NOBODY);
    assert_eq!(orders(&mut broker), [(1, Order::Evict { gpu: 0 })]);
}

#[test]
fn people_still_have_it_leave() {
    for (op, subject) in [(Op::Suspend, 100), (Op::Drain, 0)] {
        let mut broker = one_there();
        assert_eq!(order(&mut broker, op, 0, subject, seconds(1)), Reply::Done);
        let mut seen = with_latency(idle(&[1], 0, seconds(1)), &[1]);
        granted(&mut broker, &mut seen, seconds(2));
        assert_eq!(orders(&mut broker).len(), 1, "{op:?}");
    }
}

#[test]
fn idle_batch_memory_makes_room_at_once_and_the_room_is_for_it() {
    let mut broker = one_there();
    // A batch program waits already, for what is about to come free.
    begin(&mut broker, 2, 50, seconds(1));
    let mut seen = idle(&[1], 0, IDLE);
    assert_eq!(granted(&mut broker, &mut seen, seconds(1)), NOBODY);
    assert_eq!(orders(&mut broker), []);
    begin(&mut broker, 3, 80, seconds(1));
    let mut seen = with_latency(idle(&[1], 0, IDLE), &[3]);
    assert_eq!(granted(&mut broker, &mut seen, seconds(1)), NOBODY);
    // A part of it is there before the rest, and not for the batch program.
    broker.request(1, 1, request(Op::Swapped, 1, 30 * MIB, 9), seconds(1));
    assert_eq!(granted(&mut broker, &mut seen, seconds(1)), NOBODY);
    let evict = vec![Order::Evict { gpu: 0 }];
    assert_eq!(obey(&mut broker, 1, 30 * MIB, seconds(1)), evict);
    assert_eq!(granted(&mut broker, &mut seen, seconds(1)), [3]);
    // What came back for batch programs waits for the end of the latency program, then.
    let mut seen = with_latency(idle(&[3], 0, seconds(60)), &[3]);
    assert_eq!(granted(&mut broker, &mut seen, seconds(100)), NOBODY);
    assert_eq!(orders(&mut broker), []);
    for lost in broker.die(3, seconds(100)) {
        broker.freed(lost.id);
    }
    assert_eq!(granted(&mut broker, &mut idle(&[], 0, IDLE), seconds(101)), [2]);
}

#[test]
fn who_died_waiting_claims_nothing() {
    let mut broker = one_there();
    begin(&mut broker, 2, 30, seconds(1));
    begin(&mut broker, 3, 60, seconds(1));
    let mut seen = with_latency(idle(&[1], 0, IDLE), &[3]);
    assert_eq!(granted(&mut broker, &mut seen, seconds(1)), [2]);
    assert_eq!(orders(&mut broker).len(), 1);
    begin(&mut broker, 4, 5, seconds(1));
    assert_eq!(granted(&mut broker, &mut seen, seconds(1)), NOBODY);
    broker.die(3, seconds(1));
    assert_eq!(granted(&mut broker, &mut idle(&[], 0, IDLE), seconds(1)), [4]);
}

#[test]
fn batch_programs_at_work_make_room_where_none_is_idle() {
    let mut broker = one_there();
    begin(&mut broker, 2, 60, seconds(1));
    let mut seen = with_latency(idle(&[1], 0, Duration::ZERO), &[2]);
    assert_eq!(granted(&mut broker, &mut seen, seconds(1)), NOBODY);
    // Work that is under way ends first.
    let suspend = vec![Order::Suspend { gpu: 0 }];
    assert_eq!(obey(&mut broker, 1, 60 * MIB, seconds(1)), suspend);
    assert_eq!(granted(&mut broker, &mut seen, seconds(1)), [2]);
    // It goes on once there is room, as any that was evicted.
    broker.request(1, 0, request(Op::Grow, 1, 60 * MIB, 1), seconds(2));
    assert_eq!(granted(&mut broker, &mut seen, seconds(2)), NOBODY);
    broker.request(2, 1, request(Op::End, 1, 0, 2), seconds(3));
    assert_eq!(granted(&mut broker, &mut seen, seconds(3)), [1]);
}

#[test]
fn its_growth_goes_before_that_of_batch_programs() {
    let mut broker = broker(&[100 * MIB]);
    for client in [1, 2] {
        begin(&mut broker, client, 40, seconds(0));
    }
    granted(&mut broker, &mut Snapshot::default(), seconds(0));
    for client in [1, 2] {
        broker.request(client, 0, request(Op::Grow, 1, 15 * MIB, 9), seconds(1));
    }
    let mut seen = with_latency(idle(&[], 0, IDLE), &[2]);
    assert_eq!(granted(&mut broker, &mut seen, seconds(1)), [2]);
}

#[test]
fn a_batch_program_that_has_waited_for_very_long_has_its_turn() {
    let mut broker = broker(&[100 * MIB]);
    begin(&mut broker, 1, 60, seconds(0));
    granted(&mut broker, &mut Snapshot::default(), seconds(0));
    begin(&mut broker, 2, 60, seconds(0));
    begin(&mut broker, 3, 60, seconds(1));
    let seen = || with_latency(idle(&[], 0, IDLE), &[1, 3]);
    assert_eq!(granted(&mut broker, &mut seen(), seconds(119)), NOBODY);
    let end = |broker: &mut Broker, now| broker.request(1, 1, request(Op::End, 1, 0, 1), now);
    let mut young = one_there();
    begin(&mut young, 2, 60, seconds(0));
    begin(&mut young, 3, 60, seconds(1));
    end(&mut young, seconds(20));
    assert_eq!(granted(&mut young, &mut seen(), seconds(20)), [3]);
    end(&mut broker, seconds(120));
    assert_eq!(granted(&mut broker, &mut seen(), seconds(120)), [2]);
}

/// Its user has a quota of 70 MiB. What waits for that evicts nobody, nor does what goes beyond it since
/// nothing else of the user's can go on.
#[test]
fn nobody_makes_room_for_more_than_its_user_may_have() {
    let mut broker = one_there();
    let limits = Limits {
        bytes: Some(70 * MIB),
        ..Limits::default()
    };
    let account = Account {
        limits: vec![(Owner::User(7), limits)],
        weight: 1,
        ..Account::default()
    };
    broker.has_account(7, account);
    broker.arrive(2, 200);
    broker.belongs_to(2, 7);
    let ask = |broker: &mut Broker, task: u64, mib: u64, now| {
        broker.request(2, task as usize, request(Op::Begin, task, mib * MIB, 2), now)
    };
    let seen = || with_latency(idle(&[1], 0, IDLE / 2), &[2]);
    let reply = ask(&mut broker, 1, 80, seconds(1));
    assert!(
        matches!(
            reply,
            Some(Reply::OverQuota {
                what: Limited::Bytes,
                ..
            })
        ),
        "{reply:?}"
    );
    assert_eq!(ask(&mut broker, 2, 30, seconds(1)), None);
    assert_eq!(granted(&mut broker, &mut seen(), seconds(1)), [2]);
    assert_eq!(ask(&mut broker, 3, 50, seconds(2)), None);
    for second in [2, 10, 100] {
        assert_eq!(granted(&mut broker, &mut seen(), seconds(second)), NOBODY);
        assert_eq!(orders(&mut broker), []);
    }
    broker.request(2, 1, request(Op::Withdraw, 3, 0, 2), seconds(101));
    granted(&mut broker, &mut seen(), seconds(101));
    // Within it others make room.
    broker.request(2, 60, request(Op::Grow, 2, 20 * MIB, 5), seconds(102));
    assert_eq!(granted(&mut broker, &mut seen(), seconds(102)), NOBODY);
    assert_eq!(orders(&mut broker), [(1, Order::Suspend { gpu: 0 })]);
}
