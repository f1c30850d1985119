//! That everybody's turn comes, and what is remembered of the past.

use mgb_probe::Need;

use super::*;
use crate::policies::HOLDER_PATIENCE;

const RUN: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_secs(1);

/// How long a task of `large` waits on a GPU of 100 bytes, while there is always somebody else who would fit
/// at once: two new processes a second, each with a task of `small` that lasts for [`RUN`]. Each kind is
/// expected to grow so far.
fn waits(rules: ServingRules, large: (Need, u64), small: (Need, u64)) -> Duration {
    let mut broker = Broker::new(vec![test_gpu(0, 100, 1)], rules);
    let begin = |need: Need| Request {
        need,
        ..request(Op::Begin, 1, 0, 1)
    };
    let [large, small] = [(1, large), (2, small)].map(|(client, (need, grows))| {
        broker.arrive(client, client as u32);
        broker.identify(client, ProgramId::new(client));
        broker.request(client, 0, begin(need), Duration::ZERO);
        broker.serve(&mut Snapshot::default(), Duration::ZERO);
        broker.request(client, 0, request(Op::Grow, 1, grows, 1), Duration::ZERO);
        broker.serve(&mut Snapshot::default(), Duration::ZERO);
        broker.die(client, RUN);
        broker.freed(client);
        need
    });
    let mut ends: Vec<(Duration, ClientId)> = Vec::new();
    let mut now = Duration::ZERO;
    let mut next = 4;
    let patient = Duration::from_secs(10);
    broker.arrive(3, 3);
    broker.identify(3, ProgramId::new(1));
    while now < patient * 100 {
        let over: Vec<ClientId> = ends
            .extract_if(.., |(end, _)| *end <= now)
            .map(|(_, id)| id)
            .collect();
        for client in over {
            for entry in broker.die(client, now) {
                broker.freed(entry.id);
            }
        }
        for _ in 0..2 {
            broker.arrive(next, next as u32);
            broker.identify(next, ProgramId::new(2));
            assert_eq!(broker.request(next, 0, begin(small), now), None);
            next += 1;
        }
        if now == patient {
            assert_eq!(broker.request(3, 0, begin(large), now), None);
        }
        for answer in broker.serve(&mut Snapshot::default(), now) {
            assert!(matches!(answer.reply, Reply::Granted { .. }));
            if answer.client == 3 {
                return now - patient;
            }
            ends.push((now + RUN, answer.client));
        }
        now += TICK;
    }
    panic!("it starves under {rules:?}");
}

fn need(bytes: u64, blocks: u64, priority: u32) -> Need {
    Need {
        mapped_bytes: bytes,
        grid_blocks: blocks,
        block_threads: 1024,
        priority,
        ..Need::default()
    }
}

#[test]
fn nobody_waits_longer_than_the_bound() {
    for policy in Policy::ALL
        .into_iter()
        .filter(|policy| !policy.places_processes())
    {
        for queue in Queue::ALL {
            let Ok(queue) = policy.serves(Some(queue)) else {
                continue;
            };
            let rules = ServingRules {
                queue,
                ..ServingRules::new(policy)
            };
            let waits = |large, small| waits(rules, large, small);
            // It wants all memory; all others are of higher priority.
            let waited = waits((need(99, 1, 0), 0), (need(30, 1, 1), 0));
            // Those who came before it and wait go first, too.
            let bound = rules.patience * HOLDER_PATIENCE + RUN * 2 + TICK;
            let bound = match queue {
                Queue::InOrder => bound * 2,
                // Of those as well that others have passed: two a second, of which three fit at once.
                Queue::Edf | Queue::Laxity => bound + RUN * 7,
                _ => bound,
            };
            assert!(waited <= bound, "{waited:?} under {policy} {queue}");
            // All others can end in time, and it cannot, or does not have to.
            for within in [0, 1, 3_600_000_000_000] {
                let due = |need: Need, deadline_ns| Need { deadline_ns, ..need };
                let (large, small) = (need(99, 1, 0), need(30, 1, 1));
                let waited = waits((due(large, within), 0), (due(small, 20_000_000_000), 0));
                assert!(waited <= bound, "{waited:?} for deadlines under {policy} {queue}");
            }
            // It, all others or both are expected to grow.
            for (grows, others_grow) in [(60, 0), (0, 20), (60, 20)] {
                let large = (need(39, 1, 0), grows);
                let waited = waits(large, (need(30, 1, 1), others_grow));
                assert!(
                    waited <= bound,
                    "{waited:?} for what is expected under {policy} {queue}"
                );
            }
            // It wants the whole GPU to compute with.
            let waited = waits((need(10, 1 << 40, 0), 0), (need(10, 9, 1), 0));
            assert!(waited <= bound, "{waited:?} for compute under {policy} {queue}");
        }
    }
}

/// Clients 1 to 9, all of one program, on a GPU of 100 bytes.
fn of_one_program(queue: Queue) -> Broker {
    let rules = ServingRules {
        queue,
        ..ServingRules::new(Policy::Mgb)
    };
    let mut broker = Broker::new(vec![test_gpu(0, 100, 1)], rules);
    for client in 1..10 {
        broker.arrive(client, client as u32);
        broker.identify(client, ProgramId::new(7));
    }
    broker
}

fn begin(broker: &mut Broker, client: ClientId, bytes: u64, now: Duration) {
    let asked = broker.request(client, 0, request(Op::Begin, 1, bytes, 1), now);
    assert_eq!(asked, None);
}

/// Who is granted how much.
fn granted(broker: &mut Broker, now: Duration) -> Vec<(ClientId, u64)> {
    let answers = broker.serve(&mut Snapshot::default(), now).into_iter();
    let reserved = |answer: Answer| match answer.reply {
        Reply::Granted { reserved, .. } => (answer.client, reserved),
        other => panic!("{other:?}"),
    };
    answers.map(reserved).collect()
}

#[test]
fn what_lasted_shortest_goes_first_the_next_time() {
    let mut broker = of_one_program(Queue::Shortest);
    for (client, bytes, lasts) in [(1, 40, 9), (2, 50, 2)] {
        begin(&mut broker, client, bytes, Duration::ZERO);
        assert_eq!(granted(&mut broker, Duration::ZERO), [(client, bytes)]);
        let end = request(Op::End, 1, 0, 1);
        broker.request(client, 1, end, Duration::from_secs(lasts));
        broker.die(client, Duration::from_secs(lasts));
        broker.freed(client);
    }
    for (client, bytes) in [(3, 40), (4, 50), (5, 60)] {
        begin(&mut broker, client, bytes, Duration::from_secs(20));
    }
    assert_eq!(granted(&mut broker, Duration::from_secs(20)), [(4, 50), (3, 40)]);
}

#[test]
fn a_task_in_a_host_phase_keeps_nobody_off_its_gpu() {
    let gpus = vec![test_gpu(0, 100, 1), test_gpu(1, 100, 1)];
    let mut broker = Broker::new(gpus, ServingRules::new(Policy::Mgb));
    let ask = |broker: &mut Broker, client: ClientId, blocks| {
        broker.arrive(client, client as u32);
        let begin = Request {
            need: need(10, blocks, 0),
            ..request(Op::Begin, 1, 0, 1)
        };
        assert_eq!(broker.request(client, 0, begin, Duration::ZERO), None);
    };
    let place = |broker: &mut Broker, activity: &[Activity]| {
        let mut snapshot = Snapshot {
            activity: activity.to_vec(),
            ..Snapshot::default()
        };
        match broker.serve(&mut snapshot, Duration::ZERO)[..] {
            [
                Answer {
                    reply: Reply::Granted { gpu, .. },
                    ..
                },
            ] => gpu,
            ref other => panic!("{other:?}"),
        }
    };
    ask(&mut broker, 1, 20);
    assert_eq!(place(&mut broker, &[]), 0);
    ask(&mut broker, 2, 10);
    assert_eq!(place(&mut broker, &[]), 1);
    let idle = |client, gpu, part| Activity {
        client,
        gpu,
        part,
        ..Activity::default()
    };
    // The first is busy a tenth of the time: two of its twenty blocks, against ten.
    ask(&mut broker, 3, 10);
    assert_eq!(place(&mut broker, &[idle(1, 0, WHOLE / 10)]), 0);
    // Who says nothing is taken for busy; who lies beyond all bounds, too.
    ask(&mut broker, 4, 1);
    assert_eq!(place(&mut broker, &[idle(1, 0, u32::MAX), idle(9, 7, 0)]), 1);
}
