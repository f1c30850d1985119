//! Who goes first, and that no order overcommits or forgets anybody.

use super::*;
use crate::gpu_set::GpuSet;
use proptest::prelude::*;

/// The policies that place tasks by memory, in any order of service.
fn hard() -> impl Iterator<Item = Policy> {
    let takes_any = |policy: &Policy| Queue::ALL.iter().all(|queue| policy.serves(Some(*queue)).is_ok());
    Policy::ALL.into_iter().filter(takes_any)
}

const ORDERS: [Queue; 6] = Queue::ALL;

fn expected(seconds: u64, waiter: Waiter) -> Waiter {
    Waiter {
        expected: Duration::from_secs(seconds),
        ..waiter
    }
}

#[test]
fn nobody_passes_in_order_but_where_nobody_can_go_on() {
    for policy in hard() {
        let gpus = [gpu(10), gpu(10)];
        let mut jobs = [waiter(1, 20, 1), waiter(2, 1, 1), waiter(3, 1, 1)];
        let serve =
            |gpus: &[GpuState], jobs: &[Waiter]| serve(policy, Queue::InOrder, gpus, &idle(gpus), jobs);
        assert_eq!(serve(&gpus, &jobs), []);
        // Others stand in no line with it.
        jobs[0].gpus = GpuSet::from_bits(0b01);
        assert_eq!(serve(&gpus, &jobs), [(1, 1), (2, 1)]);
        jobs[0].gpus = GpuSet::ALL;
        jobs[2].contexts = GpuSet::from_bits(0b01);
        assert_eq!(serve(&gpus, &jobs), []);
        let stalled = gpus.map(|gpu| GpuState { stalled: true, ..gpu });
        assert_eq!(serve(&stalled, &jobs), [(2, 0)]);
    }
}

#[test]
fn the_shortest_goes_first_until_another_is_old() {
    for policy in hard() {
        let gpus = [gpu(10)];
        let mut jobs = [
            expected(50, waiter(1, 4, 1)),
            waiter(2, 4, 1),
            expected(5, waiter(3, 4, 1)),
            expected(1, waiter(4, 20, 1)),
        ];
        let serve = |jobs: &[Waiter]| serve(policy, Queue::Shortest, &gpus, &idle(&gpus), jobs);
        assert_eq!(serve(&jobs), [(2, 0), (0, 0)]);
        jobs[1].since = ago(10);
        assert_eq!(serve(&jobs), [(1, 0), (2, 0)]);
        // One that is old and fits nowhere has room gather for it.
        jobs[3].since = ago(10);
        jobs[1].since = NOW;
        assert_eq!(serve(&jobs), []);
    }
}

#[test]
fn the_largest_goes_first_until_another_is_old() {
    for policy in hard() {
        let gpus = [gpu(10)];
        let mut jobs = [
            waiter(1, 2, 1),
            waiter(2, 4, 1),
            waiter(3, 5, 1),
            waiter(4, 4, 1),
            waiter(5, 20, 1),
        ];
        let serve = |jobs: &[Waiter]| serve(policy, Queue::Largest, &gpus, &idle(&gpus), jobs);
        assert_eq!(serve(&jobs), [(2, 0), (0, 0)]);
        jobs[3].since = ago(10);
        assert_eq!(serve(&jobs), [(3, 0), (1, 0)]);
        // One that is old and fits nowhere has room gather for it.
        jobs[4].since = ago(10);
        jobs[3].since = NOW;
        assert_eq!(serve(&jobs), []);
    }
}

fn due(seconds: u64, waiter: Waiter) -> Waiter {
    Waiter {
        deadline: Some(NOW + Duration::from_secs(seconds)),
        ..waiter
    }
}

/// Requests with and without deadlines, all of which fit.
fn with_deadlines() -> [Waiter; 6] {
    [
        waiter(1, 1, 1),
        due(50, expected(60, waiter(2, 1, 1))),
        due(110, expected(100, waiter(3, 1, 1))),
        due(60, expected(5, waiter(4, 1, 1))),
        // LAX as published has it pass the third: 5 is less than that one's laxity of 10.
        due(4, expected(5, waiter(5, 1, 1))),
        due(20, waiter(6, 1, 1)),
    ]
}

#[test]
fn what_can_be_met_goes_first_and_what_is_lost_last() {
    let first = |queue, jobs: &[Waiter]| {
        let orders = hard().map(|policy| {
            let gpus = [gpu(100)];
            let served = serve(policy, queue, &gpus, &idle(&gpus), jobs);
            served.into_iter().map(|(at, _)| at).collect::<Vec<usize>>()
        });
        let mut orders: Vec<Vec<usize>> = orders.collect();
        orders.dedup();
        assert_eq!(orders.len(), 1, "the same under all policies");
        orders.remove(0)
    };
    let mut jobs = with_deadlines();
    assert_eq!(first(Queue::Edf, &jobs), [5, 3, 2, 0, 1, 4]);
    assert_eq!(first(Queue::Laxity, &jobs), [2, 5, 3, 0, 1, 4]);
    // Beyond the patience they are served so as well, but not beyond the bound.
    jobs[0].since = ago(10);
    jobs[4].since = ago(39);
    assert_eq!(first(Queue::Laxity, &jobs), [2, 5, 3, 0, 1, 4]);
    jobs[4].since = ago(40);
    assert_eq!(first(Queue::Laxity, &jobs), [4, 2, 5, 3, 0, 1]);
    assert_eq!(first(Queue::Edf, &jobs), [4, 5, 3, 2, 0, 1]);
}

/// Room gathers for one that is old, as under the other orders, but not before what can still be met.
#[test]
fn room_gathers_behind_what_can_be_met() {
    for policy in hard() {
        let gpus = [gpu(10)];
        let mut jobs = [waiter(1, 20, 1), waiter(2, 1, 1), due(60, waiter(3, 1, 1))];
        jobs[0].since = ago(10);
        let serve = |jobs: &[Waiter]| serve(policy, Queue::Laxity, &gpus, &idle(&gpus), jobs);
        assert_eq!(serve(&jobs), [(2, 0)]);
        jobs[0].since = ago(40);
        assert_eq!(serve(&jobs), []);
    }
}

#[test]
fn orders_are_named_and_some_policies_have_their_own() {
    for order in ORDERS {
        assert_eq!(order.to_string().parse(), Ok(order));
        for policy in hard() {
            assert_eq!(policy.serves(Some(order)), Ok(order));
        }
    }
    assert_eq!(Policy::Mgb.serves(None), Ok(Queue::Largest));
    assert_eq!(Policy::Alg3.serves(None), Ok(Queue::Backfill));
    assert_eq!(Policy::SchedGpu(WaitOrder::Fifo).serves(None), Ok(Queue::InOrder));
    let error = Policy::Cg(2).serves(Some(Queue::Shortest)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("policy cg:2 has an order of its own (in-order)")
    );
    assert_eq!(
        "lifo".parse::<Queue>().unwrap_err().to_string(),
        "unknown queue `lifo`; known are in-order, backfill, shortest, largest, edf and laxity"
    );
}

fn any_waiter() -> impl Strategy<Value = Waiter> {
    let who = (
        1..6u64,
        prop_oneof![Just(u64::MAX), Just(1), Just(2), Just(5)],
        0..8u64,
    );
    let what = (0..14u64, 0..200u32, prop_oneof![Just(32u32), Just(1024)]);
    let due = prop::option::of(0..40u64);
    let when = (0..60u64, (0..20u64, due), 0..3u32, prop::bool::weighted(0.2));
    (who, what, when).prop_map(
        |((client, gpus, contexts), (bytes, blocks, threads), when)| Waiter {
            gpus: GpuSet::from_bits(gpus),
            contexts: GpuSet::from_bits(contexts),
            bytes,
            launch: TaskLaunch {
                blocks,
                threads,
                ..TaskLaunch::default()
            },
            since: ago(when.0),
            expected: Duration::from_secs(when.1.0),
            deadline: when.1.1.map(|due| ago(20) + Duration::from_secs(due)),
            priority: when.2,
            alone: when.3,
            ..waiter(client, 0, 0)
        },
    )
}

fn any_policy() -> impl Strategy<Value = (Policy, Queue)> {
    let schedgpu = WaitOrder::ALL.map(Policy::SchedGpu);
    let policies: Vec<Policy> = hard().chain(schedgpu).collect();
    (
        prop::sample::select(policies),
        prop::sample::select(ORDERS.to_vec()),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    #[test]
    fn no_order_overcommits_and_the_first_that_fits_is_never_passed_over(
        (policy, queue) in any_policy(),
        rooms in proptest::collection::vec((0..24u64, 0..5u32, any::<bool>()), 1..4),
        waiting in proptest::collection::vec(any_waiter(), 0..12),
    ) {
        let gpus: Vec<GpuState> = rooms
            .iter()
            .map(|&(room, processes, stalled)| GpuState { processes, max_processes: 4, stalled, ..gpu(room) })
            .collect();
        let mut waiting = waiting;
        waiting.sort_by_key(|waiter| waiter.since);
        let placed = serve(policy, queue, &gpus, &idle(&gpus), &waiting);
        let mut room: Vec<u64> = rooms.iter().map(|&(room, ..)| room).collect();
        let mut processes: Vec<u32> = rooms.iter().map(|&(_, processes, _)| processes).collect();
        let mut made: Vec<(u64, usize)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for &(at, gpu) in &placed {
            prop_assert!(seen.insert(at), "granted twice");
            let waiter = &waiting[at];
            prop_assert!(waiter.gpus.contains(gpu), "not allowed there");
            let has_context = waiter.contexts.contains(gpu) || made.contains(&(waiter.client, gpu));
            let cost = waiter.bytes + u64::from(!has_context);
            prop_assert!(cost <= room[gpu], "more than there is");
            room[gpu] -= cost;
            if !has_context {
                made.push((waiter.client, gpu));
                processes[gpu] += 1;
                prop_assert!(processes[gpu] <= 4);
            }
        }
        // The oldest is served if it could be on idle GPUs, unless others have the highest priority.
        if let Some(first) = waiting.first().filter(|first| first.since <= ago(40)) {
            let fits = |gpu: &usize| {
                let has_context = first.contexts.contains(gpu);
                first.gpus.contains(gpu)
                    && first.bytes + u64::from(!has_context) <= gpus[*gpu].room
                    && (has_context || gpus[*gpu].processes < 4)
            };
            if (0..gpus.len()).any(|gpu| fits(&gpu)) {
                prop_assert!(placed.iter().any(|&(at, _)| at == 0), "the oldest was passed over");
            }
        }
    }
}
