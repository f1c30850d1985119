//! What people order of processes: that they are suspended, and resumed.

use mgb_probe::view::{HeldBack, Hindrance, TaskState};
use mgb_probe::wire::{OF_JOB, Order, Text, WHOLE_JOB};

use super::*;

const PERSON: ClientId = 90;
pub(super) const NOBODY: [ClientId; 0] = [];

/// A broker over these GPUs, with a person's connection.
pub(super) fn broker(gpus: &[u64]) -> Broker {
    let mut broker = broker_over(gpus);
    broker.arrive(PERSON, 9000);
    broker.only_looks(PERSON, true);
    broker
}

pub(super) fn order(broker: &mut Broker, op: Op, flags: u32, subject: u64, now: Duration) -> Reply {
    let order = Request {
        flags,
        ..request(op, subject, 0, 1)
    };
    broker.request(PERSON, 0, order, now).expect("an answer at once")
}

/// All clients listen, and these have had no work on a GPU for that long.
pub(super) fn idle(clients: &[ClientId], gpu: usize, length: Duration) -> Snapshot {
    let seen = |&client: &ClientId| Activity {
        client,
        gpu,
        idle: (!length.is_zero()).then_some(length),
        ..Activity::default()
    };
    Snapshot {
        activity: clients.iter().map(seen).collect(),
        listening: (1..10).collect(),
        host_bytes: Some(1 << 40),
        ..Snapshot::default()
    }
}

/// Begins task 1 of a client on the only GPU with room, or waits.
pub(super) fn begin(broker: &mut Broker, client: ClientId, mib: u64, now: Duration) {
    broker.arrive(client, client as u32 * 100);
    let reply = broker.request(client, 0, request(Op::Begin, 1, mib * MIB, client as u32), now);
    assert_eq!(reply, None);
}

pub(super) fn granted(broker: &mut Broker, snapshot: &mut Snapshot, now: Duration) -> Vec<ClientId> {
    let answers = broker.serve(snapshot, now).into_iter();
    let granted = answers.filter(|answer| matches!(answer.reply, Reply::Granted { .. }));
    granted.map(|answer| answer.client).collect()
}

/// The client does what it was ordered: what its task 1 has goes to the host.
pub(super) fn obey(broker: &mut Broker, client: ClientId, bytes: u64, now: Duration) -> Vec<Order> {
    let orders = broker.take_orders();
    for order in orders.iter().filter(|order| order.client == client) {
        if bytes > 0 {
            broker.request(client, 1, request(Op::Swapped, 1, bytes, 9), now);
        }
        let done = request(Op::Obeyed, u64::from(order.number), bytes, 9);
        assert_eq!(broker.request(client, 1, done, now), Some(Reply::Done));
    }
    orders.iter().map(|order| order.order).collect()
}

#[test]
fn a_suspended_process_leaves_at_once_and_waits_until_it_may_go_on() {
    let mut broker = broker(&[100 * MIB]);
    begin(&mut broker, 1, 60, seconds(0));
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(0)), [1]);
    begin(&mut broker, 2, 60, seconds(1));
    // Its memory has been idle for no time: it pays nothing, so that nobody leaves for the second.
    let mut busy = idle(&[1], 0, Duration::ZERO);
    assert_eq!(granted(&mut broker, &mut busy, seconds(2)), NOBODY);
    assert_eq!(broker.take_orders(), []);

    assert_eq!(order(&mut broker, Op::Suspend, 0, 100, seconds(2)), Reply::Done);
    assert_eq!(
        order(&mut broker, Op::Suspend, 0, 100, seconds(2)),
        Reply::Unchanged
    );
    assert!(broker.presses());
    assert_eq!(granted(&mut broker, &mut busy, seconds(2)), NOBODY);
    assert_eq!(
        broker.task_views(|_, _, task| task, seconds(2))[0].state,
        TaskState::Suspending
    );
    assert_eq!(
        obey(&mut broker, 1, 60 * MIB, seconds(3)),
        [Order::Suspend { gpu: 0 }]
    );
    assert!(!broker.presses());
    assert_eq!(granted(&mut broker, &mut busy, seconds(3)), [2]);
    assert_eq!(
        broker.task_views(|_, _, task| task, seconds(3))[0].state,
        TaskState::Suspended
    );

    // It wants its memory back, and is not heard although there is room once the second has ended.
    broker.request(1, 0, request(Op::Grow, 1, 60 * MIB, 1), seconds(4));
    for lost in broker.die(2, seconds(5)) {
        broker.freed(lost.id);
    }
    assert_eq!(
        granted(&mut broker, &mut idle(&[], 0, seconds(1)), seconds(90)),
        NOBODY
    );
    let waits = broker.wait_views(seconds(90));
    assert_eq!(waits[0].held_back, Some(HeldBack::Suspended));
    assert!(!broker.waiting(), "mgbd may sleep meanwhile");
    assert_eq!(order(&mut broker, Op::Resume, 0, 100, seconds(91)), Reply::Done);
    assert!(broker.waiting());
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(91)), [1]);
    assert_eq!(
        order(&mut broker, Op::Resume, 0, 100, seconds(92)),
        Reply::Unchanged
    );
}

#[test]
fn what_is_held_back_keeps_nobody_waiting() {
    let mut broker = broker(&[100 * MIB]);
    begin(&mut broker, 1, 40, seconds(0));
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(0)), [1]);
    // Its growth waits, and would pass the patience: no newcomer would begin then.
    begin(&mut broker, 2, 40, seconds(1));
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(1)), [2]);
    broker.request(1, 0, request(Op::Grow, 1, 40 * MIB, 1), seconds(2));
    assert_eq!(
        granted(&mut broker, &mut idle(&[], 0, seconds(1)), seconds(2)),
        NOBODY
    );
    begin(&mut broker, 3, 5, seconds(3));
    assert_eq!(
        granted(&mut broker, &mut idle(&[], 0, seconds(1)), seconds(40)),
        NOBODY
    );
    assert_eq!(order(&mut broker, Op::Suspend, 0, 100, seconds(41)), Reply::Done);
    assert_eq!(
        granted(&mut broker, &mut idle(&[], 0, seconds(1)), seconds(41)),
        [3]
    );
}

/// Two that wait for each other are a deadlock, of which the younger makes room; with one of them suspended
/// the other waits for a person, and is not swapped or refused.
#[test]
fn a_suspended_process_is_part_of_no_deadlock() {
    let stuck = |suspend: bool| {
        let mut broker = broker(&[100 * MIB]);
        for client in [1, 2] {
            begin(&mut broker, client, 45, seconds(0));
        }
        assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(0)), [1, 2]);
        if suspend {
            assert_eq!(order(&mut broker, Op::Suspend, 0, 100, seconds(1)), Reply::Done);
        }
        for client in [1, 2] {
            broker.request(
                client,
                0,
                request(Op::Grow, 1, 45 * MIB, client as u32),
                seconds(1),
            );
        }
        // Nobody obeys orders here: the memory of the first stays.
        let answers = broker.serve(&mut Snapshot::default(), seconds(60));
        answers.into_iter().map(|answer| answer.reply).collect::<Vec<_>>()
    };
    assert_eq!(stuck(false), [Reply::SwapOut { gpu: 0 }]);
    assert_eq!(stuck(true), []);
}

#[test]
fn who_cannot_leave_is_asked_again_and_the_reason_shown() {
    let mut broker = broker(&[100 * MIB]);
    begin(&mut broker, 1, 60, seconds(0));
    granted(&mut broker, &mut Snapshot::default(), seconds(0));
    assert_eq!(order(&mut broker, Op::Suspend, 0, 100, seconds(1)), Reply::Done);
    let hindrance = |broker: &Broker| broker.leaving_views()[0].hindrance;
    let mut deaf = Snapshot::default();
    granted(&mut broker, &mut deaf, seconds(1));
    assert_eq!(hindrance(&broker), Some(Hindrance::NoAgent));
    let mut poor = idle(&[1], 0, seconds(1));
    poor.host_bytes = Some(59 * MIB);
    granted(&mut broker, &mut poor, seconds(1));
    assert_eq!(
        (hindrance(&broker), broker.take_orders().len()),
        (Some(Hindrance::HostMemory), 0)
    );

    let mut busy = idle(&[1], 0, Duration::ZERO);
    granted(&mut broker, &mut busy, seconds(2));
    assert_eq!(hindrance(&broker), None);
    assert_eq!(obey(&mut broker, 1, 0, seconds(7)).len(), 1);
    granted(&mut broker, &mut busy, seconds(7));
    assert_eq!(hindrance(&broker), Some(Hindrance::Busy));
    // As often as it takes, and soon after each.
    for round in 0..20 {
        let now = seconds(10 + 8 * round);
        granted(&mut broker, &mut busy, now);
        assert_eq!(
            obey(&mut broker, 1, 0, now + seconds(5)).len(),
            1,
            "round {round}"
        );
    }
    granted(&mut broker, &mut idle(&[1], 0, seconds(1)), seconds(300));
    assert_eq!(hindrance(&broker), Some(Hindrance::Stays));
    // One that does not answer is not waited for.
    granted(&mut broker, &mut busy, seconds(400));
    granted(&mut broker, &mut busy, seconds(420));
    assert_eq!(hindrance(&broker), Some(Hindrance::NoAnswer));
}

#[test]
fn what_was_declared_stays() {
    let mut broker = broker(&[100 * MIB]);
    broker.arrive(1, 100);
    let whole = Request {
        flags: WHOLE_PROCESS,
        ..request(Op::Begin, 1, 60 * MIB, 1)
    };
    broker.request(1, 0, whole, seconds(0));
    granted(&mut broker, &mut Snapshot::default(), seconds(0));
    order(&mut broker, Op::Suspend, 0, 100, seconds(1));
    granted(&mut broker, &mut idle(&[1], 0, seconds(1)), seconds(1));
    assert_eq!(broker.leaving_views()[0].hindrance, Some(Hindrance::Declared));
    assert_eq!(broker.take_orders(), []);
}

#[test]
fn jobs_are_suspended_with_all_that_belongs_to_them() {
    let mut broker = broker(&[100 * MIB]);
    for client in [1, 2, 3] {
        begin(&mut broker, client, 10, seconds(0));
        broker.join(client, if client == 3 { 0 } else { 7 });
    }
    assert_eq!(
        order(&mut broker, Op::Suspend, WHOLE_JOB, 300, seconds(0)),
        Reply::Unknown
    );
    assert_eq!(
        order(&mut broker, Op::Suspend, OF_JOB, 0, seconds(0)),
        Reply::Unknown
    );
    assert_eq!(
        order(&mut broker, Op::Suspend, OF_JOB, 8, seconds(0)),
        Reply::Unknown
    );
    assert_eq!(
        order(&mut broker, Op::Suspend, WHOLE_JOB, 200, seconds(0)),
        Reply::Done
    );
    assert_eq!(
        order(&mut broker, Op::Suspend, OF_JOB, 7, seconds(0)),
        Reply::Unchanged
    );
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(0)), [3]);
    // One that comes later is as the others are.
    broker.arrive(4, 400);
    broker.join(4, 7);
    broker.request(4, 0, request(Op::Begin, 1, MIB, 4), seconds(1));
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(1)), NOBODY);
    let pids: Vec<u32> = broker
        .suspended_views(seconds(1))
        .iter()
        .map(|view| view.pid)
        .collect();
    assert_eq!(pids, [100, 200, 400]);
    let alone = order(&mut broker, Op::Resume, 0, 100, seconds(2));
    assert_eq!(
        alone,
        Reply::Bad(Text::new("its whole job is suspended: resume it with --job"))
    );
    assert_eq!(
        order(&mut broker, Op::Resume, WHOLE_JOB, 100, seconds(2)),
        Reply::Done
    );
    let mut all = granted(&mut broker, &mut Snapshot::default(), seconds(2));
    all.sort_unstable();
    assert_eq!(all, [1, 2, 4]);
}

#[test]
fn who_dies_suspended_is_forgotten() {
    let mut broker = broker(&[100 * MIB]);
    begin(&mut broker, 1, 10, seconds(0));
    assert_eq!(order(&mut broker, Op::Suspend, 0, 100, seconds(0)), Reply::Done);
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(0)), NOBODY);
    broker.die(1, seconds(1));
    assert!(broker.wait_views(seconds(1)).is_empty() && broker.suspended_views(seconds(1)).is_empty());
    assert_eq!(order(&mut broker, Op::Resume, 0, 100, seconds(1)), Reply::Unknown);
    // Another process that gets its number is not meant.
    broker.arrive(2, 100);
    broker.request(2, 0, request(Op::Begin, 1, MIB, 2), seconds(2));
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(2)), [2]);
}

#[test]
fn programs_cannot_order_that() {
    let mut broker = broker(&[100 * MIB]);
    begin(&mut broker, 1, 10, seconds(0));
    for op in [Op::Suspend, Op::Resume, Op::Drain, Op::EndDrain] {
        let reply = broker.request(1, 1, request(op, 100, 0, 1), seconds(0));
        assert!(matches!(reply, Some(Reply::Bad(_))), "{op:?}");
    }
    // Who only looks has nothing to suspend.
    assert_eq!(
        order(&mut broker, Op::Suspend, 0, 9000, seconds(0)),
        Reply::Unknown
    );
}

#[test]
fn a_task_that_ends_while_it_waits_to_grow_is_answered() {
    let mut broker = broker(&[100 * MIB]);
    begin(&mut broker, 1, 60, seconds(0));
    granted(&mut broker, &mut Snapshot::default(), seconds(0));
    order(&mut broker, Op::Suspend, 0, 100, seconds(1));
    broker.request(1, 0, request(Op::Grow, 1, MIB, 1), seconds(1));
    broker.serve(&mut Snapshot::default(), seconds(1));
    broker.request(1, 1, request(Op::End, 1, 0, 2), seconds(2));
    let answers = broker.serve(&mut Snapshot::default(), seconds(2));
    assert!(
        matches!(answers[0].reply, Reply::Bad(_)) && answers.len() == 1,
        "{answers:?}"
    );
}

#[test]
fn who_says_another_user_s_job_has_no_part_in_it() {
    let mut broker = broker(&[100 * MIB]);
    // A person of each of two users; the other one is root.
    for (person, uid) in [(91, 1001), (92, 1002)] {
        broker.arrive(person, 9000);
        broker.belongs_to(person, uid);
        broker.only_looks(person, false);
    }
    for (client, uid) in [(1, 1001), (2, 1002)] {
        begin(&mut broker, client, 10, seconds(0));
        broker.belongs_to(client, uid);
        broker.join(client, 7);
    }
    let by = |broker: &mut Broker, person, op, bytes| {
        let order = Request {
            flags: OF_JOB,
            ..request(op, 7, bytes, 1)
        };
        broker
            .request(person, 0, order, seconds(0))
            .expect("an answer at once")
    };
    let is = |broker: &Broker| [1, 2].map(|client| broker.books.is_suspended(client));
    assert_eq!(by(&mut broker, 91, Op::Suspend, 0), Reply::Done);
    assert_eq!(is(&broker), [true, false]);
    // Whatever user he names.
    for bytes in [0, 1002] {
        assert_eq!(by(&mut broker, 92, Op::Resume, bytes), Reply::Unchanged);
    }
    assert_eq!(is(&broker), [true, false]);
    // Root means one, or all.
    assert_eq!(by(&mut broker, PERSON, Op::Resume, 1003), Reply::Unchanged);
    assert_eq!(by(&mut broker, PERSON, Op::Suspend, 0), Reply::Done);
    assert_eq!(is(&broker), [true, true]);
    assert_eq!(by(&mut broker, PERSON, Op::Resume, 1002), Reply::Done);
    assert_eq!(is(&broker), [false, true]);
    let image = crate::journal::Image {
        standing: broker.take_changes().1.expect("there were orders"),
        ..Default::default()
    };
    let mut next = broker_over(&[100 * MIB]);
    for (client, uid) in [(1, 1001), (2, 1002)] {
        next.arrive(client, client as u32);
        next.belongs_to(client, uid);
        next.join(client, 7);
    }
    next.bring_in(&image, &BTreeMap::new(), seconds(0));
    assert_eq!(is(&next), [false, true]);
    broker.die(2, seconds(1));
    assert_eq!(by(&mut broker, 92, Op::Suspend, 0), Reply::Unknown);
}
