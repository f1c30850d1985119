//! Tasks that go on elsewhere.

use mgb_probe::need::MOVABLE;
use mgb_probe::view::TaskState;
use mgb_probe::wire::{ELSEWHERE, Order};

use super::*;

/// All listen; these fill the GPU where they are.
fn at_work(there: &[(ClientId, usize)]) -> Snapshot {
    let seen = |&(client, gpu): &(ClientId, usize)| Activity {
        client,
        gpu,
        part: WHOLE,
        ..Activity::default()
    };
    Snapshot {
        covered: vec![None; 2],
        activity: there.iter().map(seen).collect(),
        listening: (1..10).collect(),
        host_bytes: Some(1 << 40),
        ..Snapshot::default()
    }
}

fn begin(broker: &mut Broker, client: ClientId, mib: u64, gpus: u64, flags: u32, now: Duration) {
    broker.arrive(client, client as u32 * 100);
    let mut request = request(Op::Begin, 1, mib * MIB, client as u32);
    (request.gpus, request.need.flags) = (gpus, flags);
    assert_eq!(broker.request(client, 0, request, now), None);
    broker.serve(&mut at_work(&[]), now);
}

fn key(client: ClientId) -> TaskKey {
    TaskKey { client, task: 1 }
}

fn gpu(broker: &Broker, client: ClientId) -> Option<usize> {
    broker.ledger().task(key(client)).map(|holding| holding.gpu)
}

/// Two that may go anywhere and fill one GPU of two, and the order that one of them is given.
fn two_on_one(broker: &mut Broker) -> (OrderTo, Duration) {
    begin(broker, 3, 90, 2, 0, seconds(0));
    begin(broker, 1, 20, 1, 0, seconds(0));
    begin(broker, 2, 30, 3, MOVABLE, seconds(0));
    assert_eq!(gpu(broker, 2), Some(0));
    for lost in broker.die(3, seconds(1)) {
        broker.freed(lost.id);
    }
    let work = at_work(&[(1, 0), (2, 0)]);
    broker.even_out(&work, seconds(60));
    assert_eq!(broker.take_orders(), [], "it may be over in a moment");
    broker.even_out(&work, seconds(61));
    let orders = broker.take_orders();
    assert_eq!(orders.len(), 1);
    let order = Order::Move {
        task: 1,
        gpu: 0,
        to: 1,
    };
    assert_eq!((orders[0].client, orders[0].order), (2, order));
    (orders[0], seconds(61))
}

#[test]
fn a_task_is_charged_on_both_gpus_until_it_is_there() {
    let mut broker = broker_over(&[100 * MIB, 100 * MIB]);
    let (order, now) = two_on_one(&mut broker);
    let charged = |broker: &Broker, gpu| broker.ledger().charges(gpu).reserved;
    assert_eq!((charged(&broker, 0), charged(&broker, 1)), (50 * MIB, 30 * MIB));
    let state = broker.task_views(|_, _, task| task, now)[1].state;
    assert_eq!(state, TaskState::Moving);
    // Room is not granted twice.
    begin(&mut broker, 4, 70, 2, 0, now);
    assert_eq!(gpu(&broker, 4), None);
    assert_eq!(
        broker.request(2, 1, request(Op::Moved, 1, 0, 9), now),
        Some(Reply::Done)
    );
    let done = request(Op::Obeyed, u64::from(order.number), 30 * MIB, 9);
    broker.request(2, 1, done, now);
    assert_eq!((charged(&broker, 0), charged(&broker, 1)), (20 * MIB, 30 * MIB));
    assert_eq!((gpu(&broker, 2), broker.counts().moved), (Some(1), 1));
    // It stays: one of the GPUs has no less work than the other.
    broker.even_out(&at_work(&[(1, 0), (2, 1)]), seconds(90));
    broker.even_out(&at_work(&[(1, 0), (2, 1)]), seconds(91));
    assert_eq!(broker.take_orders(), []);
}

#[test]
fn a_task_that_could_not_move_is_charged_where_it_is() {
    let mut broker = broker_over(&[100 * MIB, 100 * MIB]);
    let (order, now) = two_on_one(&mut broker);
    broker.request(2, 1, request(Op::Obeyed, u64::from(order.number), 0, 9), now);
    assert_eq!(broker.ledger().charges(1).reserved, 0);
    assert_eq!((gpu(&broker, 2), broker.counts().moves_failed), (Some(0), 1));
    // It may not say later that it is there.
    let late = broker.request(2, 1, request(Op::Moved, 1, 0, 9), now);
    assert!(matches!(late, Some(Reply::Bad(_))), "{late:?}");
}

#[test]
fn who_dies_on_the_way_has_left_memory_on_both() {
    let mut broker = broker_over(&[100 * MIB, 100 * MIB]);
    let (_, now) = two_on_one(&mut broker);
    let lost = broker.die(2, now);
    let bytes: Vec<(usize, u64)> = lost.iter().map(|entry| (entry.gpu, entry.bytes)).collect();
    assert_eq!(bytes, [(0, 31 * MIB), (1, 31 * MIB)]);
}

#[test]
fn who_does_not_answer_keeps_room_on_both() {
    let mut broker = broker_over(&[100 * MIB, 100 * MIB]);
    let (order, now) = two_on_one(&mut broker);
    broker.even_out(&at_work(&[]), now + seconds(60));
    assert_eq!(broker.ledger().charges(1).reserved, 30 * MIB);
    assert_eq!(broker.counts().moves_failed, 1);
    // A second order could not be told from the first.
    let later = now + seconds(200);
    for at in [later, later + seconds(1)] {
        broker.even_out(&at_work(&[(1, 0), (2, 0)]), at);
    }
    assert_eq!(broker.take_orders(), []);
    // It was only slow.
    broker.request(2, 1, request(Op::Moved, 1, 0, 9), now + seconds(61));
    let done = request(Op::Obeyed, u64::from(order.number), 1, 9);
    broker.request(2, 1, done, now + seconds(61));
    assert_eq!(gpu(&broker, 2), Some(1));
    assert_eq!(broker.ledger().charges(0).reserved, 20 * MIB);
}

#[test]
fn nobody_grows_on_the_way() {
    let mut broker = broker_over(&[100 * MIB, 100 * MIB]);
    let (order, now) = two_on_one(&mut broker);
    broker.request(2, 0, request(Op::Grow, 1, 10 * MIB, 2), now);
    assert_eq!(broker.serve(&mut at_work(&[]), now), []);
    let early = broker.request(2, 1, request(Op::Moved, 1, 0, 9), now);
    assert!(matches!(early, Some(Reply::Bad(_))), "{early:?}");
    broker.request(2, 1, request(Op::Obeyed, u64::from(order.number), 0, 9), now);
    let grown = broker.serve(&mut at_work(&[]), now);
    assert!(
        matches!(grown[0].reply, Reply::Granted { gpu: 0, .. }),
        "{grown:?}"
    );
}

#[test]
fn memory_comes_back_where_there_is_room() {
    let mut broker = broker_over(&[100 * MIB, 100 * MIB]);
    begin(&mut broker, 1, 60, 3, MOVABLE, seconds(0));
    let first = gpu(&broker, 1).expect("it was granted");
    broker.request(1, 1, request(Op::Swapped, 1, 60 * MIB, 9), seconds(1));
    begin(&mut broker, 2, 60, 1 << first, 0, seconds(1));
    let back = |flags, gpus| Request {
        flags,
        gpus,
        ..request(Op::Grow, 1, 60 * MIB, 1)
    };
    broker.request(1, 0, back(0, 3), seconds(2));
    assert_eq!(
        broker.serve(&mut at_work(&[]), seconds(2)),
        [],
        "it did not say that it may"
    );
    broker.hang_up(1);
    broker.request(1, 0, back(ELSEWHERE, 1 << first), seconds(2));
    assert_eq!(
        broker.serve(&mut at_work(&[]), seconds(2)),
        [],
        "it does not see the other"
    );
    broker.hang_up(1);
    broker.request(1, 0, back(ELSEWHERE, 3), seconds(2));
    let answers = broker.serve(&mut at_work(&[]), seconds(2));
    let granted = Reply::Granted {
        gpu: 1 - first as u32,
        reserved: 60 * MIB,
    };
    assert_eq!(answers[0].reply, granted);
    assert_eq!(gpu(&broker, 1), Some(1 - first));
}

/// A task that cannot move at this moment, because its GPU does not rest, say, can a moment later.
#[test]
fn what_a_person_wants_moved_is_tried_again() {
    let mut broker = broker_over(&[100 * MIB, 100 * MIB]);
    begin(&mut broker, 1, 30, 3, MOVABLE, seconds(0));
    let (from, work) = (gpu(&broker, 1).expect("it is placed"), at_work(&[(1, 0)]));
    broker.arrive(90, 9000);
    broker.only_looks(90, true);
    let wish = request(Op::Move, 100, 1 - from as u64, 1);
    assert_eq!(broker.request(90, 0, wish, seconds(1)), Some(Reply::Done));
    let ordered = |broker: &mut Broker, ms| {
        let now = seconds(1) + Duration::from_millis(ms);
        broker.serve(&mut work.clone(), now);
        let order = broker.take_orders().first().map(|order| order.number);
        if let Some(number) = order {
            broker.request(1, 1, request(Op::Obeyed, u64::from(number), 0, 9), now);
        }
        order.is_some()
    };
    assert!(ordered(&mut broker, 0));
    assert!(
        !ordered(&mut broker, 50),
        "not at once: the program is held meanwhile"
    );
    assert!(ordered(&mut broker, 1100));
    assert!(ordered(&mut broker, 4900));
    assert!(broker.presses(), "a round comes though nobody waits");
    assert!(!ordered(&mut broker, 5100), "not for ever");
    assert!(!broker.presses());
}
