//! The ledger under random sequences of changes.

use super::*;
use crate::gpu_set::GpuSet;
use crate::node::test_gpu;
use proptest::prelude::*;

fn holding(gpu: usize, reserved: u64, warps: u64) -> Holding {
    Holding {
        gpu,
        reserved,
        peak: 0,
        expected_bytes: 0,
        warps,
        running: true,
        swapped: false,
        evicted: 0,
        whole_process: false,
        alone: false,
        may_go: GpuSet::EMPTY,
        label: mgb_probe::wire::Text::default(),
        granted: Duration::ZERO,
        deadline: None,
        may_rest: false,
        away: EvictedTime::default(),
    }
}

#[test]
fn a_context_is_charged_once_and_stays() {
    let mut ledger = Ledger::new(vec![test_gpu(0, 100, 10)], false);
    let key = |task| TaskKey { client: 1, task };
    ledger.grant(key(1), holding(0, 40, 5), 0).unwrap();
    ledger.grant(key(2), holding(0, 40, 5), 0).unwrap();
    assert_eq!(ledger.room(0), 10);
    assert_eq!(ledger.end(key(1), 0), Ok(40));
    assert_eq!(ledger.end(key(2), 30), Ok(10));
    assert_eq!(
        ledger.charges(0),
        Charges {
            reserved: 30,
            headroom: 0,
            contexts: 10,
            overhead: 0,
            reclaiming: 0,
            warps: 0
        }
    );
    let lost = ledger.die(1, false, Duration::ZERO);
    assert_eq!((lost.len(), lost[0].bytes, ledger.room(0)), (1, 40, 60));
    ledger.freed(lost[0].id).unwrap();
    assert_eq!(ledger.room(0), 100);
    assert!(ledger.holds_nothing(1));
}

#[test]
fn a_swapped_task_stays_known_after_its_end() {
    let mut ledger = Ledger::new(vec![test_gpu(0, 100, 10)], false);
    let key = TaskKey { client: 1, task: 1 };
    ledger.grant(key, holding(0, 40, 5), 0).unwrap();
    assert_eq!(ledger.swap(key, 40), Ok(40));
    assert_eq!(ledger.end(key, 0), Ok(0));
    assert_eq!(ledger.grow(key, 40), Ok(40));
    assert_eq!(ledger.shrink(key, 40), Ok(40));
    assert!(ledger.task(key).is_none());
}

#[test]
fn headroom_is_charged_and_its_task_grows_into_it() {
    let mut ledger = Ledger::new(vec![test_gpu(0, 100, 10)], false);
    let key = |task| TaskKey { client: 1, task };
    let expects = |expected_bytes| Holding {
        expected_bytes,
        ..holding(0, 10, 0)
    };
    assert!(ledger.grant(key(1), expects(91), 0).is_err());
    ledger.grant(key(1), expects(60), 0).unwrap();
    assert_eq!((ledger.charges(0).headroom, ledger.room(0)), (50, 30));
    ledger.grant(key(2), holding(0, 30, 0), 0).unwrap();
    assert_eq!(ledger.grow(key(1), 20), Ok(30));
    assert_eq!((ledger.charges(0).headroom, ledger.room(0)), (30, 0));
    assert!(ledger.grow(key(1), 31).is_err(), "one more than is kept for it");
    assert!(ledger.grow(key(2), 1).is_err(), "what is kept is not for others");
    assert_eq!(ledger.shrink(key(1), 25), Ok(25));
    assert_eq!((ledger.charges(0).headroom, ledger.room(0)), (55, 0));
    ledger.end(key(2), 0).unwrap();
    assert_eq!(ledger.grow(key(1), 85), Ok(90));
    assert_eq!((ledger.charges(0).headroom, ledger.room(0)), (0, 0));
}

#[test]
fn overhead_is_charged_with_the_context_until_it_is_taken() {
    let mut ledger = Ledger::new(vec![test_gpu(0, 100, 10)], false);
    let key = |client, task| TaskKey { client, task };
    assert!(ledger.grant(key(1, 1), holding(0, 60, 0), 31).is_err());
    ledger.grant(key(1, 1), holding(0, 20, 0), 30).unwrap();
    ledger.grant(key(1, 2), holding(0, 10, 0), 30).unwrap();
    let charges = |ledger: &Ledger| {
        (
            ledger.charges(0).overhead,
            ledger.charges(0).contexts,
            ledger.room(0),
        )
    };
    assert_eq!(charges(&ledger), (30, 10, 30), "once, with the context");
    assert!(ledger.grow(key(1, 1), 31).is_err(), "it is not for tasks");
    ledger.has_taken(1, 0, 20);
    assert_eq!((charges(&ledger), ledger.taken(0)), ((10, 10, 50), 20));
    ledger.has_taken(1, 0, 5);
    assert_eq!(
        (charges(&ledger), ledger.taken(0)),
        ((10, 10, 50), 5),
        "it does not come back"
    );
    ledger.end(key(1, 1), 0).unwrap();
    ledger.end(key(1, 2), 0).unwrap();
    assert!(ledger.charges(0).is_idle());
    assert_eq!(ledger.charges(0).kept(), 10, "it is the process's");
    let lost = ledger.die(1, false, Duration::ZERO);
    assert_eq!((lost[0].bytes, ledger.room(0), ledger.taken(0)), (10, 90, 0));
}

#[test]
fn headroom_is_over_with_the_task_its_memory_and_its_process() {
    let over = |change: fn(&mut Ledger, TaskKey)| {
        let mut ledger = Ledger::new(vec![test_gpu(0, 100, 10)], false);
        let key = TaskKey { client: 1, task: 1 };
        let expects = Holding {
            expected_bytes: 60,
            ..holding(0, 20, 0)
        };
        ledger.grant(key, expects, 0).unwrap();
        change(&mut ledger, key);
        let charged = ledger.charges(0);
        // Nor does it come back.
        let _ = ledger.grow(key, 20);
        let _ = ledger.shrink(key, 20);
        assert_eq!(ledger.charges(0).headroom, 0);
        (charged.headroom, charged.bytes())
    };
    assert_eq!(over(|ledger, key| drop(ledger.end(key, 20))), (0, 30));
    assert_eq!(over(|ledger, key| drop(ledger.swap(key, 20))), (0, 10));
    assert_eq!(over(|ledger, _| ledger.forgo(0, None)), (0, 30));
    assert_eq!(over(|ledger, _| ledger.forgo(0, Some(1))), (0, 30));
    let dies = |ledger: &mut Ledger, key: TaskKey| drop(ledger.die(key.client, false, Duration::ZERO));
    assert_eq!(over(dies), (0, 30));
}

#[test]
fn another_client_pays_its_own_context() {
    let mut ledger = Ledger::new(vec![test_gpu(0, 100, 10)], false);
    ledger
        .grant(TaskKey { client: 1, task: 1 }, holding(0, 80, 0), 0)
        .unwrap();
    let error = ledger
        .grant(TaskKey { client: 2, task: 1 }, holding(0, 1, 0), 0)
        .unwrap_err();
    assert_eq!(
        error,
        LedgerError::Full {
            gpu: 0,
            wanted: 11,
            room: 10
        }
    );
}

#[test]
fn exec_keeps_the_task_that_is_the_process() {
    let mut ledger = Ledger::new(vec![test_gpu(0, 100, 10), test_gpu(1, 100, 10)], false);
    let whole = Holding {
        whole_process: true,
        ..holding(0, 20, 0)
    };
    ledger.grant(TaskKey { client: 1, task: 1 }, whole, 0).unwrap();
    ledger
        .grant(TaskKey { client: 1, task: 2 }, holding(1, 30, 0), 0)
        .unwrap();
    let lost = ledger.die(1, true, Duration::ZERO);
    assert_eq!(lost.len(), 1);
    assert_eq!((lost[0].gpu, lost[0].bytes), (1, 40));
    assert_eq!(ledger.room(0), 70);
}

#[test]
fn company_is_room_or_a_running_task() {
    let mut ledger = Ledger::new(vec![test_gpu(0, 100, 10)], false);
    let key = |client| TaskKey { client, task: 1 };
    let alone = Holding {
        alone: true,
        ..holding(0, 0, 0)
    };
    ledger.grant(key(1), alone, 0).unwrap();
    ledger.grant(key(2), holding(0, 40, 0), 0).unwrap();
    let colocation = Colocation::of(&ledger);
    assert_eq!(colocation.on(0).count, 2);
    assert!(colocation.is_closed(0, 2) && !colocation.is_closed(0, 1));
    ledger.end(key(1), 0).unwrap();
    ledger.swap(key(2), 40).unwrap();
    let colocation = Colocation::of(&ledger);
    assert_eq!(colocation.on(0).count, 0, "contexts, and what is in host memory");
    assert!(!colocation.is_closed(0, 2) && !colocation.on(0).present.others_than(3));
    ledger.grow(key(2), 1).unwrap();
    assert!(Colocation::of(&ledger).on(0).present.others_than(3));
    ledger.die(2, false, Duration::ZERO);
    assert!(
        Colocation::of(&ledger).on(0).present.others_than(3),
        "its room is not free yet"
    );
}

#[derive(Clone, Debug)]
enum LedgerStep {
    Grant {
        client: u64,
        task: u64,
        gpu: usize,
        bytes: u64,
        expected: u64,
        overhead: u64,
        warps: u64,
        whole: bool,
    },
    Grow {
        client: u64,
        task: u64,
        bytes: u64,
    },
    Shrink {
        client: u64,
        task: u64,
        bytes: u64,
    },
    Swap {
        client: u64,
        task: u64,
        bytes: u64,
    },
    Forgo {
        gpu: usize,
        only: Option<u64>,
    },
    Takes {
        client: u64,
        gpu: usize,
        bytes: u64,
    },
    End {
        client: u64,
        task: u64,
        kept: u64,
    },
    Die {
        client: u64,
        exec: bool,
    },
    Freed {
        which: usize,
    },
    Expect {
        client: u64,
        task: u64,
        gpu: usize,
    },
    Arrive {
        client: u64,
        task: u64,
        comes: bool,
    },
}

fn step() -> impl Strategy<Value = LedgerStep> {
    let (client, task, bytes) = (0..4u64, 0..4u64, 0..70u64);
    prop_oneof![
        (
            client.clone(),
            task.clone(),
            0..3usize,
            bytes.clone(),
            prop_oneof![Just(0), bytes.clone()],
            prop_oneof![Just(0), 0..30u64],
            any::<u32>(),
            any::<bool>()
        )
            .prop_map(|(client, task, gpu, bytes, expected, overhead, warps, whole)| {
                LedgerStep::Grant {
                    client,
                    task,
                    gpu,
                    bytes,
                    expected,
                    overhead,
                    warps: warps.into(),
                    whole,
                }
            }),
        (client.clone(), task.clone(), bytes.clone()).prop_map(|(client, task, bytes)| LedgerStep::Grow {
            client,
            task,
            bytes
        }),
        (client.clone(), task.clone(), bytes.clone()).prop_map(|(client, task, bytes)| LedgerStep::Shrink {
            client,
            task,
            bytes
        }),
        (client.clone(), task.clone(), bytes.clone()).prop_map(|(client, task, bytes)| LedgerStep::Swap {
            client,
            task,
            bytes
        }),
        (0..3usize, proptest::option::of(client.clone()))
            .prop_map(|(gpu, only)| LedgerStep::Forgo { gpu, only }),
        (client.clone(), 0..3usize, 0..40u64).prop_map(|(client, gpu, bytes)| LedgerStep::Takes {
            client,
            gpu,
            bytes
        }),
        (client.clone(), task, bytes).prop_map(|(client, task, kept)| LedgerStep::End { client, task, kept }),
        (client, any::<bool>()).prop_map(|(client, exec)| LedgerStep::Die { client, exec }),
        (0..8usize).prop_map(|which| LedgerStep::Freed { which }),
        (0..4u64, 0..4u64, 0..3usize).prop_map(|(client, task, gpu)| LedgerStep::Expect {
            client,
            task,
            gpu
        }),
        (0..4u64, 0..4u64, any::<bool>()).prop_map(|(client, task, comes)| LedgerStep::Arrive {
            client,
            task,
            comes
        }),
    ]
}

proptest! {
    /// `check` runs after every step; at the end, the death of all and the
    /// freeing of all room leave an empty ledger.
    #[test]
    fn never_over_capacity_and_empty_at_the_end(steps in proptest::collection::vec(step(), 0..80)) {
        let gpus = vec![test_gpu(0, 100, 10), test_gpu(1, 64, 3), test_gpu(2, 10, 12)];
        let mut ledger = Ledger::new(gpus, false);
        for step in steps {
            match step {
                LedgerStep::Grant { client, task, gpu, bytes, expected, overhead, warps, whole } => {
                    let beside = if ledger.has_context(client, gpu) { 0 } else { overhead };
                    let fits = ledger.cost(client, gpu, bytes.max(expected)) + beside <= ledger.room(gpu);
                    let key = TaskKey { client, task };
                    let known = ledger.task(key).is_some();
                    let expects = Holding { expected_bytes: expected, ..holding(gpu, bytes, warps) };
                    let entry = Holding { whole_process: whole, ..expects };
                    prop_assert_eq!(ledger.grant(key, entry, overhead).is_ok(), fits && !known);
                }
                LedgerStep::Grow { client, task, bytes } => {
                    let key = TaskKey { client, task };
                    let has_room = |held: &Holding| bytes <= ledger.room(held.gpu) + held.headroom();
                    let fits = ledger.task(key).is_some_and(has_room);
                    prop_assert_eq!(ledger.grow(key, bytes).is_ok(), fits);
                }
                LedgerStep::Shrink { client, task, bytes } => {
                    let _ = ledger.shrink(TaskKey { client, task }, bytes);
                }
                LedgerStep::Swap { client, task, bytes } => {
                    let _ = ledger.swap(TaskKey { client, task }, bytes);
                }
                LedgerStep::Forgo { gpu, only } => {
                    ledger.forgo(gpu, only);
                    let mut kept = ledger.tasks().filter(|(key, held)| {
                        held.gpu == gpu && only.is_none_or(|only| key.client == only) && held.headroom() > 0
                    });
                    prop_assert!(kept.next().is_none());
                    let overhead = |client| ledger.overhead_of(client, gpu);
                    prop_assert!((0..4).all(|client| only.is_some_and(|only| client != only) || overhead(client) == 0));
                }
                LedgerStep::Takes { client, gpu, bytes } => {
                    let before = ledger.overhead_of(client, gpu);
                    ledger.has_taken(client, gpu, bytes);
                    let kept = ledger.overhead_of(client, gpu);
                    prop_assert!((before.saturating_sub(bytes)..=before).contains(&kept));
                    let taken = if ledger.has_context(client, gpu) { bytes } else { 0 };
                    prop_assert!(ledger.taken(gpu) >= taken);
                }
                LedgerStep::End { client, task, kept } => {
                    let _ = ledger.end(TaskKey { client, task }, kept);
                }
                LedgerStep::Die { client, exec } => {
                    ledger.die(client, exec, Duration::ZERO);
                }
                LedgerStep::Expect { client, task, gpu } => {
                    let key = TaskKey { client, task };
                    let is_new = ledger.arrival(key).is_none();
                    let cost = ledger.cost_of_arrival(key, gpu);
                    let fits = is_new && cost.is_ok_and(|cost| cost <= ledger.room(gpu));
                    prop_assert_eq!(ledger.expect_arrival(key, gpu, 1).is_ok(), fits);
                }
                LedgerStep::Arrive { client, task, comes } => {
                    let key = TaskKey { client, task };
                    let before = (ledger.arrival(key), ledger.task(key).map(|held| held.gpu));
                    if comes {
                        let came = ledger.arrive(key).is_ok();
                        let there = ledger.task(key).map(|held| held.gpu);
                        let expected = if came { before.0.map(|arrival| arrival.gpu) } else { before.1 };
                        prop_assert_eq!(there, expected);
                    } else {
                        ledger.give_up_arrival(key);
                    }
                    prop_assert_eq!(ledger.arrival(key), None);
                }
                LedgerStep::Freed { which } => {
                    if let Some(id) = ledger.reclaiming().get(which).map(|entry| entry.id) {
                        ledger.freed(id);
                    }
                }
            }
            prop_assert_eq!(&ledger.charges, &ledger.recount());
        }
        for client in 0..4 {
            ledger.die(client, false, Duration::ZERO);
        }
        while let Some(id) = ledger.reclaiming().first().map(|entry| entry.id) {
            ledger.freed(id);
        }
        for gpu in 0..3 {
            prop_assert_eq!(ledger.charges(gpu), Charges::default());
        }
    }
}
