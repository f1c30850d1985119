//! Whole lives of processes: nobody hangs, nobody overflows; and what the broker answers to one request.

mod alone;
mod caps;
mod control;
mod deadlines;
mod drain;
mod evicting;
mod expect;
mod fair;
mod gather;
mod health;
mod hostile;
mod jobs;
mod kept;
mod latency;
mod moving;
mod overhead;
mod quota;
mod quota_alone;
mod shares;
mod times;
mod usage;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_interface::{Policy, Queue};
use mgb_probe::need::ALONE;
use mgb_probe::wire::{Op, PROCESS_DEADLINE, Reply, Request, STARTS, WHOLE_PROCESS};
use proptest::prelude::*;
use world::{Act, SimulatedWorld, request};

use super::*;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;
use crate::node::test_gpu;

const MIB: u64 = 1 << 20;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A broker over GPUs of so many bytes, with contexts of a MiB.
fn broker_over(gpus: &[u64]) -> Broker {
    let gpus = gpus.iter().enumerate();
    let gpus = gpus.map(|(index, &bytes)| test_gpu(index as u32, bytes, MIB));
    Broker::new(gpus.collect(), ServingRules::new(Policy::Mgb))
}

/// FlexGPU's four processes, in bytes at 1/`shrink` of the sizes.
fn flexgpu(shrink: f64) {
    let gib = |size: f64| (size * f64::from(1 << 30) / shrink) as u64;
    let context = gib(0.514);
    let lives = [(3.61, 3.36), (1.36, 3.09), (1.88, 3.51), (3.88, 2.51)]
        .map(|(hold, more)| {
            vec![
                Act::Begin(1, gib(hold), 0),
                Act::Work(20),
                Act::Grow(1, gib(more)),
                Act::Work(20),
                Act::End(1, 0),
            ]
        })
        .to_vec();
    let mut world = SimulatedWorld::new(&[gib(12.0) + 4 * context], context, lives);
    world.run();
    let swaps: Vec<u32> = world.processes.iter().map(|process| process.swaps).collect();
    assert_eq!(swaps, [0, 0, 0, 1], "only the youngest makes room, once");
    assert_eq!(world.broker.counts().grown, 4);
    assert_eq!(world.broker.ledger().charges(0).bytes(), 0);
}

#[test]
fn four_that_grow_at_once_all_finish() {
    flexgpu(1.0);
    flexgpu(16.0);
}

#[test]
fn two_that_hold_and_begin_more_both_finish() {
    let life = || {
        vec![
            Act::Begin(1, 6, 0),
            Act::Work(2),
            Act::Begin(2, 5, 0),
            Act::Work(2),
            Act::End(2, 0),
            Act::Work(1),
        ]
    };
    let mut world = SimulatedWorld::new(&[14], 1, vec![life(), life()]);
    world.run();
    assert_eq!((world.processes[0].swaps, world.processes[1].swaps), (0, 1));
}

/// A process that was swapped out asks for its tasks one after the other, as it uses them: what it needs next
/// is small, and would fit into what it has made room for.
#[test]
fn room_that_was_made_for_one_is_not_taken_by_who_made_it() {
    let grows = vec![Act::Begin(1, 8, 0), Act::Work(8), Act::Grow(1, 12), Act::Work(1)];
    let begins = (1..=3).map(|task| Act::Begin(task, 2, 0));
    let uses = (0..400).map(|at| Act::Use(1 + at % 3));
    let youngest = begins
        .chain([Act::Work(16), Act::Grow(3, 2)])
        .chain(uses)
        .collect();
    let lives = [vec![grows; 4], vec![youngest]].concat();
    let mut world = SimulatedWorld::new(&[5 + 32 + 6], 1, lives);
    world.run();
    let swaps: Vec<u32> = world.processes.iter().map(|process| process.swaps).collect();
    assert!(
        swaps.iter().sum::<u32>() <= 10,
        "twice as many as processes: {swaps:?}"
    );
}

/// The first and the second wait to grow, each kept from it by contexts of the others; the third could end,
/// and only has to be let in.
#[test]
fn who_could_begin_where_others_cannot_grow_is_let_in() {
    let lives = vec![
        vec![
            Act::Begin(1, 11, 0),
            Act::Begin(2, 0, 2),
            Act::Grow(1, 5),
            Act::Grow(1, 6),
        ],
        vec![
            Act::Begin(2, 0, 0),
            Act::Begin(3, 0, 0),
            Act::Begin(1, 10, 0),
            Act::Grow(1, 9),
        ],
        vec![
            Act::Begin(2, 0, 0),
            Act::End(2, 0),
            Act::Grow(1, 1),
            Act::Begin(3, 0, 2),
        ],
    ];
    SimulatedWorld::new(&[24, 20], 1, lives).run();
}

#[test]
fn what_can_never_fit_is_refused_at_once() {
    let gpus = vec![test_gpu(0, 80 << 30, 1 << 30), test_gpu(1, 40 << 30, 1 << 30)];
    let mut broker = Broker::new(gpus, ServingRules::new(Policy::Mgb));
    broker.arrive(1, 1);
    let reply = broker.request(1, 0, request(Op::Begin, 1, 95 << 30, 1), Duration::ZERO);
    assert_eq!(
        reply,
        Some(Reply::NeverFits {
            wanted: 96 << 30,
            largest: 80 << 30
        })
    );
    let only = Request {
        gpus: 0b10,
        ..request(Op::Begin, 1, 50 << 30, 1)
    };
    let reply = broker.request(1, 0, only, Duration::ZERO);
    assert_eq!(
        reply,
        Some(Reply::NeverFits {
            wanted: 51 << 30,
            largest: 40 << 30
        })
    );
    let none = Request {
        gpus: 0b100,
        ..request(Op::Begin, 1, 1, 1)
    };
    assert_eq!(broker.request(1, 0, none, Duration::ZERO), Some(Reply::NoGpu));
    assert_eq!(
        broker.request(1, 0, request(Op::Begin, 1, 1, 1), Duration::ZERO),
        None
    );
    broker.serve(&mut Snapshot::default(), Duration::ZERO);
    let more = request(Op::Grow, 1, 80 << 30, 1);
    assert!(matches!(
        broker.request(1, 0, more, Duration::ZERO),
        Some(Reply::NeverFits { .. })
    ));
}

#[test]
fn room_that_the_driver_does_not_show_free_is_not_granted() {
    let mut broker = Broker::new(vec![test_gpu(0, 100, 10)], ServingRules::new(Policy::Mgb));
    broker.arrive(1, 1);
    broker.request(1, 0, request(Op::Begin, 1, 50, 1), Duration::ZERO);
    let snapshot = |free| Snapshot {
        covered: vec![Some(free)],
        ..Snapshot::default()
    };
    assert!(broker.serve(&mut snapshot(59), Duration::ZERO).is_empty());
    assert_eq!(broker.serve(&mut snapshot(60), Duration::ZERO).len(), 1);
}

/// The driver took memory for a program before it could ask for it: what it has already is no longer missing.
#[test]
fn a_program_does_not_wait_for_memory_that_it_has_already() {
    let mut broker = Broker::new(vec![test_gpu(0, 100, 0)], ServingRules::new(Policy::Mgb));
    broker.arrive(1, 1);
    broker.request(1, 0, request(Op::Begin, 1, 10, 1), Duration::ZERO);
    broker.serve(&mut Snapshot::default(), Duration::ZERO);
    // 60 of 100 were taken: 10 of those are reserved, 40 are free.
    broker.request(1, 0, request(Op::Grow, 1, 50, 1), Duration::ZERO);
    let snapshot = |ahead| Snapshot {
        covered: vec![Some(40)],
        ahead: BTreeMap::from([((1, 0), ahead)]),
        ..Snapshot::default()
    };
    assert!(broker.serve(&mut snapshot(9), Duration::ZERO).is_empty());
    let mut seen = snapshot(50);
    assert_eq!(broker.serve(&mut seen, Duration::ZERO).len(), 1);
    assert_eq!((seen.covered[0], seen.ahead[&(1, 0)]), (Some(40), 0));
}

#[test]
fn newcomers_have_what_a_remembered_snapshot_has_left() {
    let mut broker = Broker::new(vec![test_gpu(0, 1000, 10)], ServingRules::new(Policy::Mgb));
    let mut remembered = Snapshot {
        covered: vec![Some(130)],
        ..Snapshot::default()
    };
    for client in 1..=3 {
        broker.arrive(client, client as u32);
        broker.request(client, 0, request(Op::Begin, 1, 50, 1), Duration::ZERO);
    }
    assert_eq!(broker.serve_newcomers(&mut remembered, Duration::ZERO).len(), 2);
    assert_eq!(
        remembered.covered,
        [Some(10)],
        "less two tasks and their contexts"
    );
    assert!(broker.serve_newcomers(&mut remembered, Duration::ZERO).is_empty());
    assert!(broker.waiting(), "for a new look");
}

/// All wait to grow: by a remembered snapshot nobody is told to make room.
#[test]
fn a_remembered_snapshot_tells_nobody_to_make_room() {
    let mut broker = Broker::new(vec![test_gpu(0, 20, 0)], ServingRules::new(Policy::Mgb));
    for client in [1, 2] {
        broker.arrive(client, client as u32);
        broker.request(client, 0, request(Op::Begin, 1, 10, 1), Duration::ZERO);
    }
    let now = Duration::from_millis(100);
    assert_eq!(broker.serve_newcomers(&mut Snapshot::default(), now).len(), 2);
    for client in [1, 2] {
        broker.request(client, 0, request(Op::Grow, 1, 5, 1), now);
    }
    assert!(broker.serve_newcomers(&mut Snapshot::default(), now).is_empty());
    assert_eq!(
        broker.serve(&mut Snapshot::default(), now)[0].reply,
        Reply::SwapOut { gpu: 0 }
    );
}

#[test]
fn a_running_thread_keeps_its_process_from_waiting() {
    let mut broker = Broker::new(vec![test_gpu(0, 20, 0)], ServingRules::new(Policy::Mgb));
    for client in [1, 2] {
        broker.arrive(client, client as u32);
        broker.request(client, 0, request(Op::Begin, 1, 10, 1), Duration::ZERO);
    }
    let now = Duration::from_millis(100);
    assert_eq!(broker.serve(&mut Snapshot::default(), now).len(), 2);
    // Thread 1 of both waits for more; thread 9 of the second has a task too.
    broker.request(2, 1, request(Op::Begin, 2, 0, 9), now);
    assert_eq!(broker.serve(&mut Snapshot::default(), now).len(), 1);
    broker.request(2, 2, request(Op::Grow, 2, 0, 9), now);
    broker.request(1, 0, request(Op::Grow, 1, 5, 1), now);
    let mut busy = Snapshot {
        busy: [(2, 0)].into(),
        ..Snapshot::default()
    };
    assert!(broker.serve(&mut busy, now).is_empty());
    broker.request(2, 0, request(Op::Grow, 1, 5, 1), now);
    let answers = broker.serve(&mut busy, now);
    // Task 2 holds nothing, so it does not count.
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].reply, Reply::SwapOut { gpu: 0 });
    assert_eq!(answers[0].client, 2);
}

#[test]
fn who_was_told_and_frees_nothing_is_refused() {
    let mut broker = Broker::new(vec![test_gpu(0, 20, 0)], ServingRules::new(Policy::Mgb));
    for client in [1, 2] {
        broker.arrive(client, client as u32);
        broker.request(client, 0, request(Op::Begin, 1, 10, 1), Duration::ZERO);
    }
    broker.serve(&mut Snapshot::default(), Duration::ZERO);
    for client in [1, 2] {
        broker.request(client, 0, request(Op::Grow, 1, 5, 1), Duration::ZERO);
    }
    let answers = broker.serve(&mut Snapshot::default(), Duration::ZERO);
    assert_eq!(
        (answers[0].client, answers[0].reply),
        (2, Reply::SwapOut { gpu: 0 })
    );
    // The junior asks again and freed nothing; then the senior likewise.
    broker.request(2, 0, request(Op::Grow, 1, 5, 1), Duration::ZERO);
    let answers = broker.serve(&mut Snapshot::default(), Duration::ZERO);
    assert_eq!(
        (answers[0].client, answers[0].reply),
        (1, Reply::SwapOut { gpu: 0 })
    );
    broker.request(1, 0, request(Op::Grow, 1, 5, 1), Duration::ZERO);
    let answers = broker.serve(&mut Snapshot::default(), Duration::ZERO);
    assert_eq!((answers[0].client, answers[0].reply), (2, Reply::Deadlock));
}

#[test]
fn nonsense_is_answered() {
    let mut broker = Broker::new(vec![test_gpu(0, 20, 0)], ServingRules::new(Policy::Mgb));
    broker.arrive(1, 1);
    for op in [Op::Grow, Op::Swapped, Op::GiveBack, Op::End] {
        let reply = broker.request(1, 0, request(op, 7, u64::MAX, 1), Duration::ZERO);
        assert!(matches!(reply, Some(Reply::Bad(_))), "{op:?}");
    }
    assert!(matches!(
        broker.request(1, 0, request(Op::Begin, 0, 1, 1), Duration::ZERO),
        Some(Reply::Bad(_))
    ));
    assert_eq!(
        broker.request(1, 0, request(Op::Begin, 1, 1, 1), Duration::ZERO),
        None
    );
    let twice = broker.request(1, 1, request(Op::Begin, 1, 1, 1), Duration::ZERO);
    assert!(matches!(twice, Some(Reply::Bad(_))));
}

#[test]
fn a_blind_policy_grants_what_does_not_fit() {
    let mut broker = Broker::new(vec![test_gpu(0, 20, 1)], ServingRules::new(Policy::Cg(2)));
    for client in 1..=3 {
        broker.arrive(client, client as u32);
        broker.request(client, 0, request(Op::Begin, 1, 1000, 1), Duration::ZERO);
    }
    assert_eq!(broker.serve(&mut Snapshot::default(), Duration::ZERO).len(), 2);
    broker.die(1, Duration::ZERO);
    assert_eq!(broker.serve(&mut Snapshot::default(), Duration::ZERO).len(), 1);
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1..4u64, 0..12u64, prop_oneof![Just(0u64), Just(1), Just(2)])
            .prop_map(|(task, bytes, gpus)| Act::Begin(task, bytes, gpus)),
        4 => (1..4u64, 1..10u64).prop_map(|(task, bytes)| Act::Grow(task, bytes)),
        3 => (1..5u32).prop_map(Act::Work),
        3 => (1..4u64).prop_map(Act::Use),
        1 => (1..4u64, 0..12u64, prop_oneof![Just(0u64), Just(1), Just(2)])
            .prop_map(|(task, bytes, gpus)| Act::Alone(task, bytes, gpus)),
        2 => (1..4u64, 0..3u64).prop_map(|(task, kept)| Act::End(task, kept)),
        1 => (1..6u64).prop_map(Act::Load),
    ]
}

/// Every policy for which memory is a hard limit, in every order it has.
/// Rules of `mgb` with the patience that the times of some tests are made for.
fn patient_for_ten_seconds() -> ServingRules {
    ServingRules {
        patience: Duration::from_secs(10),
        ..ServingRules::new(Policy::Mgb)
    }
}

fn rules() -> impl Strategy<Value = ServingRules> {
    let policies: Vec<Policy> = Policy::ALL
        .into_iter()
        .filter(|policy| !policy.places_processes())
        .collect();
    let both = (
        prop::sample::select(policies),
        prop::sample::select(Queue::ALL.to_vec()),
    );
    both.prop_map(|(policy, queue)| ServingRules {
        queue: policy
            .serves(Some(queue))
            .or_else(|_| policy.serves(None))
            .unwrap(),
        ..ServingRules::new(policy)
    })
}

/// Makes task numbers unique: a number is begun once.
fn tidy(acts: Vec<Act>) -> Vec<Act> {
    let mut begun = BTreeSet::new();
    acts.into_iter()
        .filter(|act| !matches!(act, Act::Begin(task, ..) | Act::Alone(task, ..) if !begun.insert(*task)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn whatever_they_do_all_finish(
        lives in proptest::collection::vec(proptest::collection::vec(act(), 1..10), 1..7),
        is_patient in any::<bool>(),
        rules in rules(),
        // By life; the same lives again, all at once or when those before are dead: what they took is known
        // then.
        programs in proptest::collection::vec(proptest::option::of(0..3u64), 7),
        again in proptest::collection::vec(any::<bool>(), 0..3),
        foreign in (0..12u64, 0..200u64),
    ) {
        let lives: Vec<Vec<Act>> = lives.into_iter().map(tidy).collect();
        let mut world = SimulatedWorld::new(&[24, 20], 1, lives);
        world.broker.books.rules = rules;
        world.foreign = (foreign.0, Duration::from_millis(50) * foreign.1 as u32);
        for (process, program) in world.processes.iter().zip(&programs) {
            if let Some(program) = program {
                world.broker.identify(process.client, ProgramId::new(*program));
            }
        }
        if !is_patient {
            world.broker.books.rules.patience = Duration::from_millis(100);
        }
        for later in again {
            if later {
                world.run();
            }
            world.arrive(&programs);
        }
        world.run();
        for gpu in 0..2 {
            prop_assert_eq!(world.broker.ledger().charges(gpu).bytes(), 0);
        }
    }
}
