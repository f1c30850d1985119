//! What tasks grew to before is kept for them, and by whom it is given up.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A broker over GPUs of 101 bytes with contexts of 1. Clients 1 to 9 have come; 1 was of program 7 and gone
/// again, after its task had begun with 10 bytes and grown to `grown`.
fn after_a_run(gpus: u32, grown: u64) -> Broker {
    let gpus = (0..gpus).map(|index| test_gpu(index, 101, 1)).collect();
    let mut broker = Broker::new(gpus, patient_for_ten_seconds());
    for client in 1..10 {
        broker.arrive(client, client as u32);
    }
    broker.identify(1, ProgramId::new(7));
    run(&mut broker, 1, grown);
    broker
}

/// One run of a client of the program: a task that begins with 10 bytes, grows and ends with its process.
fn run(broker: &mut Broker, client: ClientId, grown: u64) {
    begin(broker, client, 1, 10, 0);
    assert_eq!(granted(broker, 0), [(client, 10)]);
    if grown > 10 {
        grow(broker, client, 1, grown - 10, 0);
        assert_eq!(granted(broker, 0), [(client, grown)]);
    }
    for entry in broker.die(client, SECOND) {
        broker.freed(entry.id);
    }
}

fn ask(broker: &mut Broker, client: ClientId, request: Request, now: u64) {
    let cell = request.task as usize;
    let now = SECOND * now as u32;
    assert_eq!(broker.request(client, cell, request, now), None, "it waits");
}

fn begin(broker: &mut Broker, client: ClientId, task: u64, bytes: u64, now: u64) {
    ask(
        broker,
        client,
        request(Op::Begin, task, bytes, client as u32),
        now,
    );
}

fn grow(broker: &mut Broker, client: ClientId, task: u64, bytes: u64, now: u64) {
    ask(broker, client, request(Op::Grow, task, bytes, client as u32), now);
}

fn granted_by(broker: &mut Broker, snapshot: &mut Snapshot, now: u64) -> Vec<(ClientId, u64)> {
    let answers = broker.serve(snapshot, SECOND * now as u32).into_iter();
    let reserved = |answer: Answer| match answer.reply {
        Reply::Granted { reserved, .. } => (answer.client, reserved),
        other => panic!("{other:?} to {}", answer.client),
    };
    answers.map(reserved).collect()
}

/// Who has how much then, of those who are granted something.
fn granted(broker: &mut Broker, now: u64) -> Vec<(ClientId, u64)> {
    granted_by(broker, &mut Snapshot::default(), now)
}

#[test]
fn a_second_run_has_the_room_to_which_the_first_grew() {
    let mut broker = after_a_run(1, 70);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 10, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 10)], "it is told what it asked for");
    // 29 bytes and a context are left beside it.
    begin(&mut broker, 3, 1, 30, 0);
    assert_eq!(granted(&mut broker, 0), []);
    begin(&mut broker, 4, 1, 28, 0);
    assert_eq!(granted(&mut broker, 0), [(4, 28)]);
    assert_eq!(broker.ledger().room(0), 1);
    let charges = broker.ledger().charges(0);
    assert_eq!((charges.reserved, charges.headroom), (38, 60));
    grow(&mut broker, 2, 1, 60, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 70)]);
}

#[test]
fn a_second_run_waits_for_the_room_to_which_the_first_grew() {
    let mut broker = after_a_run(1, 70);
    begin(&mut broker, 3, 1, 30, 0);
    assert_eq!(granted(&mut broker, 0), [(3, 30)]);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 10, 0);
    assert_eq!(granted(&mut broker, 0), []);
    // Another program's task of that size does not.
    begin(&mut broker, 4, 1, 10, 0);
    assert_eq!(granted(&mut broker, 0), [(4, 10)]);
    for client in [3, 4] {
        for entry in broker.die(client, SECOND) {
            broker.freed(entry.id);
        }
    }
    assert_eq!(granted(&mut broker, 1), [(2, 10)]);
}

/// What one of them has grown to is kept for the next before any of them has ended.
#[test]
fn growth_is_known_at_once() {
    let mut broker = after_a_run(2, 10);
    for client in [2, 3] {
        broker.identify(client, ProgramId::new(7));
    }
    begin(&mut broker, 2, 1, 10, 0);
    granted(&mut broker, 0);
    grow(&mut broker, 2, 1, 60, 0);
    granted(&mut broker, 0);
    begin(&mut broker, 3, 1, 10, 0);
    granted(&mut broker, 0);
    assert_eq!(broker.ledger().charges(1).headroom, 60);
}

#[test]
fn growth_into_headroom_needs_the_drivers_room_and_none_of_the_ledgers() {
    let mut broker = after_a_run(1, 70);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 10, 0);
    begin(&mut broker, 3, 1, 29 - 1, 0);
    begin(&mut broker, 3, 2, 1, 0);
    assert_eq!(granted(&mut broker, 0).len(), 3);
    assert_eq!(broker.ledger().room(0), 0);
    // Somebody on the GPU goes on: nobody is stuck.
    grow(&mut broker, 2, 1, 60, 0);
    let shown = |bytes| Snapshot {
        covered: vec![Some(bytes)],
        ..Snapshot::default()
    };
    assert_eq!(granted_by(&mut broker, &mut shown(59), 0), []);
    let mut snapshot = shown(60);
    assert_eq!(granted_by(&mut broker, &mut snapshot, 0), [(2, 70)]);
    assert_eq!(snapshot.covered, [Some(0)], "all of it is used up");
    // One byte more than was expected is nobody's.
    grow(&mut broker, 2, 1, 1, 0);
    assert_eq!(granted(&mut broker, 0), []);
}

/// A foreign program has memory: what the driver shows free is not enough for a newcomer and for what is
/// kept.
#[test]
fn what_the_driver_shows_free_is_kept_too() {
    let mut broker = after_a_run(1, 70);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 10, 0);
    let mut snapshot = Snapshot {
        covered: vec![Some(81)],
        ..Snapshot::default()
    };
    assert_eq!(granted_by(&mut broker, &mut snapshot, 0), [(2, 10)]);
    assert_eq!(snapshot.covered, [Some(70)]);
    begin(&mut broker, 3, 1, 10, 0);
    assert_eq!(granted_by(&mut broker, &mut snapshot, 0), []);
    begin(&mut broker, 4, 1, 9, 0);
    assert_eq!(granted_by(&mut broker, &mut snapshot, 0), [(4, 9)]);
}

#[test]
fn runs_that_grow_less_lower_what_is_expected() {
    let mut broker = after_a_run(1, 70);
    let mut kept = Vec::new();
    for client in 2..6 {
        broker.identify(client, ProgramId::new(7));
        begin(&mut broker, client, 1, 10, 0);
        granted(&mut broker, 0);
        kept.push(broker.ledger().charges(0).headroom);
        for entry in broker.die(client, SECOND) {
            broker.freed(entry.id);
        }
    }
    assert_eq!(kept, [60, 30, 15, 7]);
}

/// Another task of the kind, which is the size to an eighth, grew by all that was left, and began with less.
#[test]
fn no_more_is_expected_than_a_gpu_holds() {
    let mut broker = after_a_run(1, 10);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 16, 0);
    granted(&mut broker, 0);
    grow(&mut broker, 2, 1, 84, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 100)]);
    broker.die(2, SECOND);
    broker.freed(2);
    broker.identify(3, ProgramId::new(7));
    begin(&mut broker, 3, 1, 17, 0);
    let answers = broker.serve_newcomers(&mut Snapshot::default(), Duration::ZERO);
    assert_eq!(answers.len(), 1, "a GPU can hold it");
    assert_eq!(broker.ledger().charges(0).headroom, 83);
}

/// Somebody who never ends is in the way of what is expected, and not of what is asked for.
#[test]
fn an_expectation_makes_nobody_wait_for_ever() {
    let mut broker = after_a_run(1, 70);
    begin(&mut broker, 3, 1, 40, 0);
    assert_eq!(granted(&mut broker, 0), [(3, 40)]);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 10, 0);
    for now in 0..40 {
        assert_eq!(granted(&mut broker, now), [], "after {now} s");
    }
    assert_eq!(granted(&mut broker, 40), [(2, 10)]);
    assert_eq!(broker.ledger().charges(0).headroom, 0);
}

/// The same where what is expected of the one who never ends is in the way.
#[test]
fn headroom_makes_nobody_wait_for_ever() {
    let mut broker = after_a_run(1, 70);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 10, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 10)]);
    begin(&mut broker, 3, 1, 40, 0);
    for now in 0..40 {
        assert_eq!(granted(&mut broker, now), [], "after {now} s");
    }
    assert_eq!(granted(&mut broker, 40), [(3, 40)]);
}

/// The first waits as long as tasks usually last, and the next no less after it.
#[test]
fn whoever_is_kept_out_waits_for_somebody_to_end() {
    let mut broker = after_a_run(1, 70);
    begin(&mut broker, 9, 1, 1, 0);
    granted(&mut broker, 0);
    // It teaches how long tasks last: a mean of 101 s.
    broker.identify(8, ProgramId::new(8));
    begin(&mut broker, 8, 1, 1, 0);
    granted(&mut broker, 0);
    broker.die(8, SECOND * 801);
    broker.freed(2);
    assert_eq!(broker.history.mean(), Some(SECOND * 101));
    begin(&mut broker, 3, 1, 40, 900);
    assert_eq!(granted(&mut broker, 900), [(3, 40)]);
    for client in [2, 4] {
        broker.identify(client, ProgramId::new(7));
        begin(&mut broker, client, 1, 10, 900);
    }
    assert_eq!(granted(&mut broker, 900), []);
    assert_eq!(granted(&mut broker, 1000), []);
    assert_eq!(granted(&mut broker, 1001), [(2, 10)]);
    assert_eq!(granted(&mut broker, 1002), []);
    assert_eq!(granted(&mut broker, 1102), []);
    assert_eq!(granted(&mut broker, 1103), [(4, 10)]);
}

/// Who has room may wait for who has none yet, at a barrier of theirs: where nobody there works, what is only
/// expected of them keeps nobody out for long.
#[test]
fn what_is_kept_for_those_that_rest_keeps_nobody_out_for_long() {
    for (idle, begins_at) in [(Some(60), 5), (Some(3), 40), (None, 40)] {
        let mut broker = after_a_run(1, 70);
        broker.identify(2, ProgramId::new(7));
        begin(&mut broker, 2, 1, 10, 0);
        granted(&mut broker, 0);
        let mut seen = Snapshot {
            activity: vec![Activity {
                client: 2,
                idle: idle.map(Duration::from_secs),
                ..Activity::default()
            }],
            ..Snapshot::default()
        };
        broker.identify(3, ProgramId::new(7));
        begin(&mut broker, 3, 1, 40, 0);
        let mut granted = |now| granted_by(&mut broker, &mut seen, now);
        assert_eq!(granted(0), []);
        assert_eq!(granted(begins_at - 1), []);
        assert_eq!(granted(begins_at), [(3, 40)], "idle for {idle:?}");
    }
}

/// All that is there is a context, which stays.
#[test]
fn nobody_waits_on_a_gpu_where_nobody_has_anything() {
    let mut broker = after_a_run(1, 100);
    begin(&mut broker, 3, 1, 10, 0);
    granted(&mut broker, 0);
    let end = request(Op::End, 1, 0, 3);
    assert_eq!(broker.request(3, 9, end, Duration::ZERO), Some(Reply::Done));
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 10, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 10)]);
    assert_eq!(
        broker.ledger().charges(0).headroom,
        89,
        "all that is there is its"
    );
}

/// Both wait to grow: what is kept for them goes first, and nobody is swapped out.
#[test]
fn on_a_stalled_gpu_nothing_is_kept() {
    let mut broker = after_a_run(1, 40);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 10, 0);
    begin(&mut broker, 3, 1, 50, 0);
    granted(&mut broker, 0);
    assert_eq!(broker.ledger().room(0), 9);
    begin(&mut broker, 2, 2, 80, 0);
    assert_eq!(granted(&mut broker, 0), []);
    assert_eq!(broker.ledger().charges(0).headroom, 30, "the other goes on");
    grow(&mut broker, 3, 1, 39, 0);
    assert_eq!(granted(&mut broker, 0), [(3, 89)]);
    assert_eq!(broker.counts().swapped_out, 0);
}

#[test]
fn a_stuck_process_begins_with_what_it_asks_for() {
    let mut broker = after_a_run(1, 70);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 5, 60, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 60)]);
    begin(&mut broker, 2, 1, 10, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 10)]);
    assert_eq!(broker.counts().swapped_out, 0);
}

#[test]
fn nothing_is_kept_from_a_growth_that_has_waited_for_the_patience() {
    let mut broker = after_a_run(1, 70);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 10, 0);
    begin(&mut broker, 3, 1, 28, 0);
    assert_eq!(granted(&mut broker, 0).len(), 2);
    grow(&mut broker, 3, 1, 20, 0);
    assert_eq!(granted(&mut broker, 9), []);
    assert_eq!(granted(&mut broker, 10), [(3, 48)]);
}

/// The first run began a second task beside the first before that grew; the other GPU is somebody else's.
#[test]
fn nothing_that_is_kept_for_a_process_is_in_its_own_way() {
    let mut broker = after_a_run(2, 100);
    let on = |gpus, request: Request| Request { gpus, ..request };
    ask(&mut broker, 3, on(0b10, request(Op::Begin, 1, 99, 3)), 0);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 10, 0);
    assert_eq!(granted(&mut broker, 0).len(), 2);
    assert_eq!(broker.ledger().charges(0).headroom, 90);
    begin(&mut broker, 2, 2, 30, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 30)]);
}

/// While it asks nobody on its GPU can go on, and that is over with the answer.
#[test]
fn who_is_served_in_the_round_gives_nothing_up() {
    let mut broker = after_a_run(2, 70);
    broker.identify(2, ProgramId::new(7));
    begin(&mut broker, 2, 1, 10, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 10)]);
    begin(&mut broker, 2, 2, 40, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 40)]);
    grow(&mut broker, 2, 1, 5, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 15)]);
    assert_eq!(broker.ledger().charges(0).headroom, 55);
}

#[test]
fn policies_without_memory_expect_nothing() {
    let mut broker = Broker::new(vec![test_gpu(0, 101, 1)], ServingRules::new(Policy::Cg(2)));
    for client in [1, 2] {
        broker.arrive(client, client as u32);
        broker.identify(client, ProgramId::new(7));
    }
    run(&mut broker, 1, 90);
    begin(&mut broker, 2, 1, 10, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 10)]);
    assert_eq!(broker.ledger().charges(0).headroom, 0);
}

/// A task that has nothing yet and goes on keeps its GPU from being stalled, as long as something is kept for
/// it.
#[test]
fn headroom_counts_as_long_as_its_task_can_go_on() {
    for has_waiting_thread in [false, true] {
        let mut broker = after_a_run(1, 10);
        broker.identify(2, ProgramId::new(7));
        begin(&mut broker, 2, 1, 0, 0);
        granted(&mut broker, 0);
        grow(&mut broker, 2, 1, 60, 0);
        granted(&mut broker, 0);
        broker.die(2, SECOND);
        broker.freed(2);
        broker.identify(3, ProgramId::new(7));
        begin(&mut broker, 3, 1, 0, 0);
        begin(&mut broker, 4, 1, 30, 0);
        assert_eq!(granted(&mut broker, 0), [(3, 0), (4, 30)]);
        if has_waiting_thread {
            ask(&mut broker, 3, request(Op::Begin, 2, 90, 77), 0);
        }
        grow(&mut broker, 4, 1, 20, 0);
        assert_eq!(granted(&mut broker, 0), []);
        assert_eq!(broker.ledger().charges(0).headroom, 60);
    }
}

/// The next has not waited in the place of one that gave up.
#[test]
fn each_that_is_kept_out_waits_from_when_it_is_the_first() {
    let mut broker = after_a_run(1, 70);
    begin(&mut broker, 9, 1, 40, 0);
    granted(&mut broker, 0);
    for client in [2, 3] {
        broker.identify(client, ProgramId::new(7));
        begin(&mut broker, client, 1, 10, 0);
    }
    assert_eq!(granted(&mut broker, 0), []);
    broker.die(2, SECOND * 30);
    for now in [30, 40, 69] {
        assert_eq!(granted(&mut broker, now), [], "after {now} s");
    }
    assert_eq!(granted(&mut broker, 70), [(3, 10)]);
}

#[test]
fn nothing_is_expected_of_a_task_that_has_its_gpu_for_itself() {
    let mut broker = after_a_run(1, 70);
    broker.identify(2, ProgramId::new(7));
    let mut alone = request(Op::Begin, 1, 10, 2);
    alone.need.flags = ALONE;
    ask(&mut broker, 2, alone, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 10)]);
    assert_eq!(broker.ledger().charges(0).headroom, 0);
}
