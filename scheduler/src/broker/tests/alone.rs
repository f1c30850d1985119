//! Tasks that want a GPU for themselves.

use mgb_probe::view::WaitsFor;

use super::*;

/// A broker over GPUs of 100 bytes, with clients 1 to 3, each its own thread.
fn broker(gpus: u32) -> Broker {
    let gpus = (0..gpus).map(|index| test_gpu(index, 100, 1)).collect();
    let mut broker = Broker::new(gpus, patient_for_ten_seconds());
    for client in 1..=3 {
        broker.arrive(client, client as u32);
    }
    broker
}

fn alone(op: Op, task: u64, bytes: u64, thread: u32) -> Request {
    let mut request = request(op, task, bytes, thread);
    request.need.flags = ALONE;
    request
}

fn ask(broker: &mut Broker, client: ClientId, request: Request, now: u64) {
    let cell = request.task as usize;
    let now = Duration::from_secs(now);
    assert_eq!(broker.request(client, cell, request, now), None, "it waits");
}

fn tell(broker: &mut Broker, client: ClientId, op: Op, task: u64, bytes: u64) {
    let request = request(op, task, bytes, client as u32);
    assert_eq!(
        broker.request(client, 9, request, Duration::ZERO),
        Some(Reply::Done)
    );
}

/// Who is granted what in a round: client, task and GPU.
fn granted(broker: &mut Broker, now: u64) -> Vec<(ClientId, usize, u32)> {
    let answers = broker.serve(&mut Snapshot::default(), Duration::from_secs(now));
    answers
        .into_iter()
        .map(|answer| match answer.reply {
            Reply::Granted { gpu, .. } => (answer.client, answer.cell, gpu),
            other => panic!("{other:?} to {}", answer.client),
        })
        .collect()
}

#[test]
fn others_begin_and_grow_elsewhere_or_after_it() {
    let mut broker = broker(2);
    ask(&mut broker, 1, alone(Op::Begin, 1, 10, 1), 0);
    ask(&mut broker, 2, request(Op::Begin, 1, 10, 2), 0);
    let bound = |task| Request {
        gpus: 0b01,
        ..request(Op::Begin, task, 10, 3)
    };
    ask(&mut broker, 3, bound(1), 0);
    assert_eq!(granted(&mut broker, 0), [(1, 1, 0), (2, 1, 1)]);
    let waits_for = |broker: &Broker| broker.wait_views(Duration::ZERO)[0].waits_for;
    assert_eq!(waits_for(&broker), Some(WaitsFor::KeptAlone));
    // Its own process may do as it likes.
    ask(&mut broker, 1, request(Op::Grow, 1, 10, 1), 1);
    ask(
        &mut broker,
        1,
        Request {
            gpus: 0b01,
            ..request(Op::Begin, 2, 10, 1)
        },
        1,
    );
    assert_eq!(granted(&mut broker, 1), [(1, 1, 0), (1, 2, 0)]);
    // What it keeps after its end is in nobody's way.
    tell(&mut broker, 1, Op::End, 1, 20);
    assert_eq!(granted(&mut broker, 2), [(3, 1, 0)]);
}

#[test]
fn it_waits_for_room_and_for_tasks_of_others_but_not_for_contexts() {
    let mut broker = broker(1);
    ask(&mut broker, 1, request(Op::Begin, 1, 0, 1), 0);
    assert_eq!(granted(&mut broker, 0), [(1, 1, 0)]);
    ask(&mut broker, 2, alone(Op::Begin, 1, 10, 2), 0);
    assert_eq!(granted(&mut broker, 0), [], "a task without memory is on the GPU");
    assert_eq!(
        broker.wait_views(Duration::ZERO)[0].waits_for,
        Some(WaitsFor::OwnGpu)
    );
    ask(&mut broker, 1, request(Op::Grow, 1, 10, 1), 0);
    assert_eq!(granted(&mut broker, 0), [(1, 1, 0)]);
    tell(&mut broker, 1, Op::End, 1, 5);
    assert_eq!(granted(&mut broker, 0), [], "so is room that an ended task keeps");
    tell(&mut broker, 1, Op::GiveBack, 1, 5);
    assert_eq!(granted(&mut broker, 0), [(2, 1, 0)]);
    assert!(broker.ledger().has_context(1, 0));
}

#[test]
fn it_waits_until_the_room_of_the_dead_is_free() {
    let mut broker = broker(1);
    ask(&mut broker, 1, request(Op::Begin, 1, 10, 1), 0);
    granted(&mut broker, 0);
    ask(&mut broker, 2, alone(Op::Begin, 1, 10, 2), 0);
    let lost = broker.die(1, Duration::ZERO);
    assert_eq!(granted(&mut broker, 0), []);
    broker.freed(lost[0].id);
    assert_eq!(granted(&mut broker, 0), [(2, 1, 0)]);
    // Its own death ends it, too.
    ask(&mut broker, 3, request(Op::Begin, 1, 10, 3), 0);
    assert_eq!(granted(&mut broker, 0), []);
    broker.die(2, Duration::ZERO);
    assert_eq!(granted(&mut broker, 0), [(3, 1, 0)]);
}

/// A lease may be taken up again until it is taken away: it is on the GPU until then.
#[test]
fn a_lease_is_company_until_it_is_taken_away() {
    let mut broker = broker(1);
    ask(&mut broker, 1, request(Op::Begin, 1, 0, 1), 0);
    granted(&mut broker, 0);
    ask(&mut broker, 2, alone(Op::Begin, 1, 10, 2), 0);
    let key = TaskKey { client: 1, task: 1 };
    let mut snapshot = Snapshot {
        leased: [key].into(),
        ..Snapshot::default()
    };
    assert!(broker.serve(&mut snapshot, Duration::from_secs(60)).is_empty());
    broker.take_lease(key);
    assert_eq!(granted(&mut broker, 60), [(2, 1, 0)]);
}

#[test]
fn what_was_swapped_out_comes_back_after_it() {
    let mut broker = broker(1);
    ask(&mut broker, 1, request(Op::Begin, 1, 10, 1), 0);
    granted(&mut broker, 0);
    tell(&mut broker, 1, Op::Swapped, 1, 10);
    ask(&mut broker, 2, alone(Op::Begin, 1, 10, 2), 0);
    assert_eq!(granted(&mut broker, 0), [(2, 1, 0)]);
    ask(&mut broker, 1, request(Op::Grow, 1, 10, 1), 0);
    assert_eq!(
        granted(&mut broker, 60),
        [],
        "the other goes on, so nobody is let in"
    );
    // Nor does its waiting keep the process that is alone from more.
    ask(&mut broker, 2, request(Op::Begin, 2, 10, 2), 60);
    assert_eq!(granted(&mut broker, 60), [(2, 2, 0)]);
    tell(&mut broker, 2, Op::End, 1, 0);
    assert_eq!(granted(&mut broker, 60), [(1, 1, 0)]);
}

/// Each holds memory that nobody can take from it by waiting, and wants to be alone beside it.
#[test]
fn two_that_hold_and_want_to_be_alone_go_one_after_the_other() {
    let mut broker = broker(1);
    for client in [1, 2] {
        ask(&mut broker, client, request(Op::Begin, 1, 10, client as u32), 0);
    }
    granted(&mut broker, 0);
    ask(&mut broker, 1, alone(Op::Begin, 2, 10, 1), 0);
    assert_eq!(granted(&mut broker, 0), [], "the other may let go");
    ask(&mut broker, 2, alone(Op::Begin, 2, 10, 2), 0);
    assert_eq!(granted(&mut broker, 0), [(1, 2, 0)]);
    tell(&mut broker, 1, Op::End, 2, 0);
    // The first goes on, and may let go as well.
    assert_eq!(granted(&mut broker, 0), []);
    tell(&mut broker, 1, Op::End, 1, 0);
    assert_eq!(granted(&mut broker, 0), [(2, 2, 0)]);
    assert_eq!(broker.counts().swapped_out + broker.counts().refused, 0);
}

/// The one that is alone waits for room elsewhere, which is held by one that waits to come back beside it.
#[test]
fn who_waits_for_one_that_is_alone_and_waits_is_let_in() {
    let mut broker = broker(2);
    let on = |gpus, request: Request| Request { gpus, ..request };
    let whole = |request: Request| Request {
        flags: WHOLE_PROCESS,
        ..request
    };
    ask(&mut broker, 1, on(0b01, alone(Op::Begin, 1, 0, 1)), 0);
    assert_eq!(granted(&mut broker, 0), [(1, 1, 0)]);
    ask(&mut broker, 2, whole(on(0b10, request(Op::Begin, 1, 90, 2))), 0);
    assert_eq!(granted(&mut broker, 0), [(2, 1, 1)]);
    ask(&mut broker, 1, on(0b10, request(Op::Begin, 2, 50, 1)), 0);
    assert_eq!(granted(&mut broker, 0), []);
    ask(&mut broker, 2, on(0b01, request(Op::Begin, 2, 10, 2)), 0);
    assert_eq!(granted(&mut broker, 0), [(2, 2, 0)]);
}

/// A process that always has something there passes it again and again, and only for so long.
#[test]
fn it_begins_in_the_end_where_others_only_wait() {
    for has_context in [false, true] {
        let mut broker = broker(1);
        if has_context {
            ask(&mut broker, 2, request(Op::Begin, 9, 0, 2), 0);
            granted(&mut broker, 0);
            tell(&mut broker, 2, Op::End, 9, 0);
        }
        ask(&mut broker, 1, request(Op::Begin, 1, 10, 1), 0);
        granted(&mut broker, 0);
        ask(&mut broker, 2, alone(Op::Begin, 1, 10, 2), 0);
        for (task, now) in [(2, 1), (3, 20), (4, 39)] {
            ask(&mut broker, 1, request(Op::Begin, task, 10, 1), now);
            assert_eq!(granted(&mut broker, now), [(1, task as usize, 0)]);
            tell(&mut broker, 1, Op::End, task, 0);
        }
        assert_eq!(granted(&mut broker, 41), [], "the other is at work");
        ask(&mut broker, 1, request(Op::Begin, 5, 10, 1), 42);
        assert_eq!(granted(&mut broker, 42), [(2, 1, 0)]);
        tell(&mut broker, 2, Op::End, 1, 0);
        assert_eq!(granted(&mut broker, 42), [(1, 5, 0)]);
    }
}

#[test]
fn a_newcomer_of_its_kind_does_not_close_the_node() {
    let mut broker = broker(2);
    for (client, gpus) in [(1, 0b01), (2, 0b10)] {
        let begin = Request {
            gpus,
            ..request(Op::Begin, 1, 10, client as u32)
        };
        ask(&mut broker, client, begin, 0);
    }
    granted(&mut broker, 0);
    ask(&mut broker, 3, alone(Op::Begin, 1, 10, 3), 0);
    assert_eq!(granted(&mut broker, 11), []);
    broker.arrive(4, 4);
    ask(&mut broker, 4, request(Op::Begin, 1, 10, 4), 11);
    assert_eq!(granted(&mut broker, 11), [(4, 1, 1)], "GPU 0 is left to it");
    tell(&mut broker, 1, Op::End, 1, 0);
    assert_eq!(granted(&mut broker, 11), [(3, 1, 0)]);
}

#[test]
fn blind_policies_grant_as_ever() {
    let mut broker = Broker::new(vec![test_gpu(0, 20, 1)], ServingRules::new(Policy::Cg(2)));
    for client in 1..=2 {
        broker.arrive(client, client as u32);
        ask(&mut broker, client, alone(Op::Begin, 1, 10, client as u32), 0);
    }
    assert_eq!(granted(&mut broker, 0).len(), 2);
}
