//! When idle memory makes room, by what a program has done.

use mgb_probe::wire::Order;

use super::control::{NOBODY, begin, broker, granted, idle, obey};
use super::*;

const GIB_IN_MIB: u64 = 1 << 10;

/// Client 1 has had 8 GiB of 12 since then, of which 3 by a growth; client 2 waits for as many.
fn one_that_has_grown(at: Duration) -> Broker {
    let mut broker = broker(&[12 << 30]);
    begin(&mut broker, 1, 5 * GIB_IN_MIB, at);
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), at), [1]);
    broker.request(1, 0, request(Op::Grow, 1, 3 << 30, 1), at);
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), at), [1]);
    begin(&mut broker, 2, 8 * GIB_IN_MIB, at);
    broker
}

/// Copies are expected to take 3.2 s. What has not left has cost none, and need not stay for twice as long.
#[test]
fn memory_that_never_left_may_leave_once_it_has_been_idle_for_long_enough() {
    let mut broker = one_that_has_grown(seconds(10));
    let mut seen = idle(&[1], 0, seconds(3));
    assert_eq!(granted(&mut broker, &mut seen, seconds(13)), NOBODY);
    assert!(broker.take_orders().is_empty());
    let mut seen = idle(&[1], 0, seconds(4));
    assert_eq!(granted(&mut broker, &mut seen, seconds(14)), NOBODY);
    let evict = vec![Order::Evict { gpu: 0 }];
    assert_eq!(obey(&mut broker, 1, 8 << 30, seconds(15)), evict);
    assert_eq!(granted(&mut broker, &mut seen, seconds(15)), [2]);
    // It comes back, and stays for a while. The copy took a second, so that is four.
    broker.request(2, 1, request(Op::End, 1, 0, 2), seconds(20));
    broker.request(1, 0, request(Op::Grow, 1, 8 << 30, 1), seconds(20));
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(20)), [1]);
    begin(&mut broker, 3, 8 * GIB_IN_MIB, seconds(20));
    let mut seen = idle(&[1], 0, seconds(3));
    assert_eq!(granted(&mut broker, &mut seen, seconds(23)), NOBODY);
    assert!(broker.take_orders().is_empty());
    let mut seen = idle(&[1], 0, seconds(4));
    assert_eq!(granted(&mut broker, &mut seen, seconds(24)), NOBODY);
    assert_eq!(broker.take_orders().len(), 1);
}

/// Where those at work are known to pause for most of the time, who is idle leaves meanwhile.
#[test]
fn others_that_pause_soon_keep_nobody_there() {
    for (average, orders) in [(WHOLE, 0), (WHOLE / 4, 1)] {
        let mut broker = broker(&[100 * MIB]);
        for client in [1, 2] {
            begin(&mut broker, client, 40, seconds(0));
        }
        granted(&mut broker, &mut Snapshot::default(), seconds(0));
        begin(&mut broker, 3, 40, seconds(0));
        let mut seen = idle(&[1, 2], 0, seconds(1));
        seen.activity[1] = Activity {
            part: WHOLE,
            average,
            idle: None,
            ..seen.activity[1]
        };
        assert_eq!(granted(&mut broker, &mut seen, seconds(1)), NOBODY);
        assert_eq!(broker.take_orders().len(), orders);
    }
}

/// Memory that comes and goes all the time: who has waited longest comes back first, also where its process
/// came last.
#[test]
fn those_that_come_back_do_so_in_turn() {
    let mut broker = broker(&[100 * MIB]);
    let leave = |broker: &mut Broker, client, at| {
        broker.request(client, 1, request(Op::Swapped, 1, 60 * MIB, 9), seconds(at));
    };
    let come_back = |broker: &mut Broker, client, at| {
        let back = request(Op::Grow, 1, 60 * MIB, client as u32);
        assert_eq!(broker.request(client, 0, back, seconds(at)), None);
    };
    let served = |broker: &mut Broker, at| granted(broker, &mut Snapshot::default(), seconds(at));
    for client in 1..=3 {
        begin(&mut broker, client, 60, seconds(client));
        assert_eq!(served(&mut broker, client), [client]);
        leave(&mut broker, client, client);
    }
    come_back(&mut broker, 1, 10);
    assert_eq!(served(&mut broker, 10), [1]);
    come_back(&mut broker, 3, 11);
    come_back(&mut broker, 2, 12);
    assert_eq!(served(&mut broker, 12), NOBODY);
    for (round, next) in (0..).zip([3, 2, 1, 3, 2, 1]) {
        let at = 13 + round;
        let leaves = next % 3 + 1;
        leave(&mut broker, leaves, at);
        come_back(&mut broker, leaves, at);
        assert_eq!(served(&mut broker, at), [next], "at {at} s");
    }
}
