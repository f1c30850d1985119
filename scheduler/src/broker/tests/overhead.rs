//! What programs took beside their tasks is expected of them again.

use super::*;

/// A broker over a GPU of 101 bytes with contexts of 1. Clients 1 to 9 have come; 1 was of program 7 and gone
/// again, after its process had had `overhead` bytes beside its task.
fn after_a_run(overhead: u64) -> Broker {
    let mut broker = Broker::new(vec![test_gpu(0, 101, 1)], patient_for_ten_seconds());
    for client in 1..10 {
        broker.arrive(client, client as u32);
    }
    broker.identify(1, ProgramId::new(7));
    assert_eq!(begin(&mut broker, 1, 10, 101), [(1, 10)]);
    broker.has_overhead(1, 0, overhead);
    for entry in broker.die(1, Duration::ZERO) {
        broker.freed(entry.id);
    }
    broker
}

/// The client asks for its first task; who gets what of so many bytes that the driver shows free.
fn begin(broker: &mut Broker, client: ClientId, bytes: u64, free: u64) -> Vec<(ClientId, u64)> {
    let request = request(Op::Begin, 1, bytes, client as u32);
    assert_eq!(
        broker.request(client, 1, request, Duration::ZERO),
        None,
        "it waits"
    );
    serve(broker, free, 0)
}

fn serve(broker: &mut Broker, free: u64, second: u64) -> Vec<(ClientId, u64)> {
    let mut snapshot = Snapshot {
        covered: vec![Some(free)],
        ..Snapshot::default()
    };
    let answers = broker
        .serve(&mut snapshot, Duration::from_secs(second))
        .into_iter();
    let reserved = |answer: Answer| match answer.reply {
        Reply::Granted { reserved, .. } => (answer.client, reserved),
        other => panic!("{other:?} to {}", answer.client),
    };
    answers.map(reserved).collect()
}

#[test]
fn it_is_kept_for_the_next_process_until_that_has_taken_it() {
    let mut broker = after_a_run(30);
    broker.identify(2, ProgramId::new(7));
    assert_eq!(begin(&mut broker, 2, 20, 101), [(2, 20)], "it is not told");
    assert_eq!(
        (broker.ledger().charges(0).overhead, broker.ledger().room(0)),
        (30, 50)
    );
    assert!(
        begin(&mut broker, 3, 50, 80).is_empty(),
        "with its context it is one too many"
    );
    // It takes a part, which is free for nobody then, and the rest stays kept.
    broker.has_overhead(2, 0, 20);
    assert_eq!(broker.ledger().charges(0).overhead, 10);
    assert!(serve(&mut broker, 60, 1).is_empty());
    // It gives all of that back: nothing is kept a second time.
    broker.has_overhead(2, 0, 0);
    assert_eq!(broker.ledger().charges(0).overhead, 10);
    assert_eq!(serve(&mut broker, 80, 2), [(3, 50)]);
}

#[test]
fn it_counts_for_a_process_once_and_for_no_other_program() {
    let mut broker = after_a_run(30);
    broker.identify(2, ProgramId::new(7));
    broker.identify(3, ProgramId::new(8));
    begin(&mut broker, 2, 10, 101);
    let more = request(Op::Begin, 2, 10, 2);
    broker.request(2, 1, more, Duration::ZERO);
    assert_eq!(serve(&mut broker, 80, 0), [(2, 10)]);
    assert_eq!(begin(&mut broker, 3, 10, 70), [(3, 10)]);
    assert_eq!(broker.ledger().charges(0).overhead, 30);
    for entry in broker.die(2, Duration::ZERO) {
        broker.freed(entry.id);
    }
    assert_eq!(broker.ledger().charges(0).overhead, 0, "it goes with the process");
}

#[test]
fn it_keeps_nobody_from_what_fits() {
    let mut broker = after_a_run(60);
    broker.identify(2, ProgramId::new(7));
    // With its overhead no GPU could hold it.
    assert_eq!(begin(&mut broker, 2, 95, 101), [(2, 95)]);
    assert_eq!(broker.ledger().charges(0).overhead, 5);
}

#[test]
fn what_an_idle_process_never_takes_is_given_up_at_once() {
    for alone in [false, true] {
        let mut broker = after_a_run(60);
        broker.identify(2, ProgramId::new(7));
        begin(&mut broker, 2, 10, 101);
        broker.request(2, 1, request(Op::End, 1, 0, 2), Duration::ZERO);
        assert!(broker.ledger().charges(0).is_idle());
        assert_eq!(broker.ledger().charges(0).kept(), 60);
        let mut next = request(Op::Begin, 1, 80, 3);
        next.need.flags = if alone { ALONE } else { 0 };
        broker.request(3, 1, next, Duration::ZERO);
        assert_eq!(serve(&mut broker, 100, 0), [(3, 80)], "alone: {alone}");
    }
}

#[test]
fn who_waits_for_room_that_its_own_library_has_is_told_so() {
    let mut broker = after_a_run(0);
    assert_eq!(begin(&mut broker, 2, 40, 101), [(2, 40)]);
    broker.has_overhead(2, 0, 30);
    let grow = request(Op::Grow, 1, 50, 2);
    assert_eq!(broker.request(2, 1, grow, Duration::ZERO), None);
    // The ledger has 60 left, the driver 30, and nobody else will ever give any back.
    let mut snapshot = Snapshot {
        covered: vec![Some(30)],
        ..Snapshot::default()
    };
    let answers = broker.serve(&mut snapshot, Duration::from_secs(3));
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0].reply, Reply::Deadlock);
}
