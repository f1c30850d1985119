//! Deadlines in the queue: what they mean as time goes by, and as more is learned of how long tasks last.

use super::*;

/// Clients 1 to 9 of this program, on a GPU with room for one task at a time.
fn broker(queue: Queue) -> Broker {
    let rules = ServingRules {
        queue,
        ..ServingRules::new(Policy::Mgb)
    };
    let mut broker = Broker::new(vec![test_gpu(0, 100, 1)], rules);
    for client in 1..10 {
        broker.arrive(client, client as u32);
    }
    broker
}

/// The client, which runs this program, asks for the whole GPU, to be done within so many seconds (0: some
/// time).
fn ask(broker: &mut Broker, client: ClientId, program: u64, within: u64, now: Duration) {
    broker.identify(client, ProgramId::new(program));
    let mut begin = request(Op::Begin, 1, 80, 1);
    begin.need.deadline_ns = within * 1_000_000_000;
    assert_eq!(broker.request(client, 0, begin, now), None);
}

/// Who is granted room.
fn granted(broker: &mut Broker, now: Duration) -> Vec<ClientId> {
    let answers = broker.serve(&mut Snapshot::default(), now);
    answers.iter().map(|answer| answer.client).collect()
}

fn end(broker: &mut Broker, client: ClientId, now: Duration) {
    for entry in broker.die(client, now) {
        broker.freed(entry.id);
    }
}

/// The program has run, for so many seconds.
fn learn(broker: &mut Broker, client: ClientId, program: u64, lasts: u64) {
    ask(broker, client, program, 0, seconds(0));
    assert_eq!(granted(broker, seconds(0)), [client]);
    end(broker, client, seconds(lasts));
}

#[test]
fn what_is_lost_while_it_waits_lets_others_pass() {
    for queue in [Queue::Edf, Queue::Laxity] {
        for (ends, next) in [(25, 3), (27, 4)] {
            let mut broker = broker(queue);
            learn(&mut broker, 1, 1, 4);
            ask(&mut broker, 2, 9, 0, seconds(20));
            assert_eq!(granted(&mut broker, seconds(20)), [2]);
            ask(&mut broker, 3, 1, 10, seconds(20));
            ask(&mut broker, 4, 1, 0, seconds(21));
            assert!(granted(&mut broker, seconds(21)).is_empty());
            end(&mut broker, 2, seconds(ends));
            assert_eq!(granted(&mut broker, seconds(ends)), [next], "{queue} at {ends}");
        }
    }
}

#[test]
fn those_that_wait_are_expected_to_last_as_what_has_ended_did() {
    let mut broker = broker(Queue::Laxity);
    // Nothing is known yet.
    ask(&mut broker, 1, 1, 0, seconds(0));
    assert_eq!(granted(&mut broker, seconds(0)), [1]);
    ask(&mut broker, 2, 1, 60, seconds(1));
    ask(&mut broker, 3, 3, 50, seconds(1));
    end(&mut broker, 1, seconds(40));
    // The second takes 40 s of the 21 that are left. The third is unknown, and 40 s is the mean as well.
    ask(&mut broker, 4, 4, 0, seconds(40));
    assert_eq!(granted(&mut broker, seconds(40)), [4]);
    end(&mut broker, 4, seconds(41));
    ask(&mut broker, 5, 3, 100, seconds(41));
    // With a short one the mean is 35 s, of which the fifth has 100.
    assert_eq!(granted(&mut broker, seconds(41)), [5]);
}

#[test]
fn a_deadline_is_the_same_time_after_a_suspension() {
    let mut broker = broker(Queue::Laxity);
    broker.arrive(20, 20);
    broker.only_looks(20, true);
    let control = |broker: &mut Broker, op, now| {
        let order = request(op, 2, 0, 1);
        assert_eq!(broker.request(20, 0, order, now), Some(Reply::Done));
        granted(broker, now)
    };
    // So that the mean is short.
    learn(&mut broker, 9, 9, 1);
    ask(&mut broker, 1, 1, 0, seconds(1));
    assert_eq!(granted(&mut broker, seconds(1)), [1]);
    ask(&mut broker, 2, 2, 100, seconds(10));
    assert!(control(&mut broker, Op::Suspend, seconds(20)).is_empty());
    assert!(control(&mut broker, Op::Resume, seconds(50)).is_empty());
    ask(&mut broker, 3, 3, 75, seconds(50));
    end(&mut broker, 1, seconds(60));
    assert_eq!(
        granted(&mut broker, seconds(60)),
        [2],
        "due at 110, not at 150 behind one at 125"
    );
    let deadline = broker.ledger().tasks().next().and_then(|(_, held)| held.deadline);
    assert_eq!(deadline, Some(seconds(110)));
}

fn expect(broker: &mut Broker, client: ClientId, run: u64, flags: u32, now: Duration) -> (u64, Option<u64>) {
    let asked = Request {
        flags,
        ..request(Op::Expect, client, run, 1)
    };
    match broker.request(client, 0, asked, now) {
        Some(Reply::Expected { waits_ns, lasts_ns }) => {
            let lasts = (lasts_ns != u64::MAX).then_some(lasts_ns / 1_000_000_000);
            (waits_ns / 1_000_000_000, lasts)
        }
        other => panic!("{other:?}"),
    }
}

/// `mgb run` asks, becomes the program 7, and that has one task after some time.
#[test]
fn a_program_is_expected_to_take_as_long_as_it_did() {
    let mut broker = broker(Queue::Laxity);
    assert_eq!(expect(&mut broker, 1, 7, STARTS, seconds(0)), (0, None));
    broker.join(1, 1);
    ask(&mut broker, 1, 5, 0, seconds(4));
    assert_eq!(granted(&mut broker, seconds(4)), [1]);
    end(&mut broker, 1, seconds(10));
    // Who is refused takes no time that is remembered.
    assert_eq!(expect(&mut broker, 2, 7, 0, seconds(11)), (0, Some(10)));
    end(&mut broker, 2, seconds(11));
    assert_eq!(expect(&mut broker, 3, 7, STARTS, seconds(20)), (0, Some(10)));
    assert_eq!(
        expect(&mut broker, 4, 8, 0, seconds(20)),
        (0, None),
        "another program"
    );
    broker.belongs_to(4, 77);
    assert_eq!(
        expect(&mut broker, 4, 7, 0, seconds(20)),
        (0, None),
        "another user's"
    );
    // Behind one that runs for two seconds more, and one that waits and is to run for six.
    broker.join(3, 3);
    ask(&mut broker, 3, 5, 0, seconds(20));
    assert_eq!(granted(&mut broker, seconds(20)), [3]);
    ask(&mut broker, 5, 5, 0, seconds(20));
    assert!(granted(&mut broker, seconds(20)).is_empty());
    assert_eq!(expect(&mut broker, 6, 7, 0, seconds(24)), (8, Some(10)));
    let remembered = broker.remembered();
    let mut next = Broker::new(vec![test_gpu(0, 100, 1)], ServingRules::new(Policy::Mgb));
    next.recall(&remembered);
    next.arrive(1, 1);
    assert_eq!(expect(&mut next, 1, 7, 0, seconds(0)), (0, Some(10)));
}

/// A program that has two tasks, one after the other, has to begin the first with both in mind.
#[test]
fn a_process_has_a_deadline_for_all_that_it_does() {
    let mut broker = broker(Queue::Laxity);
    expect(&mut broker, 1, 7, STARTS, seconds(0));
    broker.join(1, 1);
    for task in [1, 2] {
        broker.identify(1, ProgramId::new(5));
        let now = seconds(20 * (task - 1));
        assert_eq!(broker.request(1, 0, request(Op::Begin, task, 80, 1), now), None);
        assert_eq!(granted(&mut broker, now), [1]);
        broker.request(1, 0, request(Op::End, task, 0, 1), now + seconds(20));
    }
    end(&mut broker, 1, seconds(40));
    ask(&mut broker, 2, 9, 0, seconds(100));
    assert_eq!(granted(&mut broker, seconds(100)), [2]);
    // Both have tasks of 20 s, the fourth's program goes on after that.
    ask(&mut broker, 3, 5, 55, seconds(100));
    expect(&mut broker, 4, 7, STARTS, seconds(100));
    broker.join(4, 4);
    broker.identify(4, ProgramId::new(5));
    let mut begin = request(Op::Begin, 1, 80, 1);
    begin.flags = PROCESS_DEADLINE;
    begin.need.deadline_ns = 60_000_000_000;
    assert_eq!(broker.request(4, 0, begin, seconds(100)), None);
    let views = broker.wait_views(seconds(101));
    let due: Vec<_> = views.iter().map(|view| view.deadline_ms).collect();
    assert_eq!(due, [Some(54_000), Some(59_000)]);
    end(&mut broker, 2, seconds(102));
    assert_eq!(
        granted(&mut broker, seconds(102)),
        [4],
        "it has 18 s to lose, the third 33"
    );
    let views = broker.task_views(|_, _, view| view, seconds(112));
    assert_eq!(
        (views[0].deadline_ms, views[0].ends_ms),
        (Some(48_000), Some(10_000))
    );
    let views = broker.wait_views(seconds(112));
    assert_eq!(
        views[0].ends_ms,
        Some(30_000),
        "ten seconds of the one before it, and its own"
    );
    let views = broker.task_views(|_, _, view| view, seconds(170));
    assert_eq!((views[0].deadline_ms, views[0].ends_ms), (Some(-10_000), Some(0)));
}
