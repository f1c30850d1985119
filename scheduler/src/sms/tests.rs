//! The closed form against blocks placed one by one.

use super::*;
use crate::node::test_multiprocessors;
use proptest::prelude::*;

/// Offers each block to the multiprocessors in turn, from where the last one went.
fn one_by_one(sms: &Sms, shape: &SmShape) -> Spread {
    let mut left = sms.left.clone();
    let mut counts = vec![0u16; left.len()];
    let mut next = sms.next;
    for _ in 0..shape.blocks {
        let holds = |at: &usize| {
            let left = &left[*at];
            u32::from(counts[*at]) < shape.per_sm
                && left.blocks >= 1
                && left.warps >= shape.warps
                && left.registers >= shape.registers
                && left.shared >= shape.shared
        };
        let Some(at) = (0..left.len()).map(|step| (next + step) % left.len()).find(holds) else {
            break;
        };
        counts[at] += 1;
        left[at].blocks -= 1;
        left[at].warps -= shape.warps;
        left[at].registers -= shape.registers;
        left[at].shared -= shape.shared;
        next = (at + 1) % left.len();
    }
    Spread {
        counts: counts.into(),
        next,
    }
}

fn launch() -> impl Strategy<Value = TaskLaunch> {
    let blocks = prop_oneof![0..4u32, 0..300u32, Just(u32::MAX)];
    let registers = prop_oneof![Just(0), 1..300u32, Just(u32::MAX)];
    let shared = prop_oneof![Just(0), 0..50_000u32, Just(u32::MAX)];
    (blocks, 0..1200u32, registers, shared).prop_map(|(blocks, threads, registers, shared)| TaskLaunch {
        blocks,
        threads,
        registers,
        shared,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn the_closed_form_is_what_one_by_one_gives(
        count in 1..24u32,
        steps in proptest::collection::vec((launch(), any::<bool>(), 0..8usize), 1..24),
    ) {
        let kind = Multiprocessors { count, ..test_multiprocessors() };
        let mut sms = Sms::new(kind);
        let mut running: Vec<(SmShape, Spread)> = Vec::new();
        for (launch, ends, which) in steps {
            if ends && !running.is_empty() {
                let (shape, spread) = running.remove(which % running.len());
                sms.release(&shape, &spread);
            }
            let shape = SmShape::of(&launch, &kind);
            let spread = sms.spread(&shape);
            prop_assert_eq!(&spread, &one_by_one(&sms, &shape));
            prop_assert_eq!(sms.fits(&shape), spread.blocks() == shape.blocks);
            prop_assert_eq!(sms.room(&shape).min(shape.blocks), spread.blocks());
            sms.charge(&shape, &spread);
            running.push((shape, spread));
        }
        for (shape, spread) in running {
            sms.release(&shape, &spread);
        }
        sms.next = 0;
        prop_assert_eq!(sms, Sms::new(kind));
    }

    #[test]
    fn an_idle_gpu_takes_every_launch(launch in launch(), count in 1..200u32) {
        let kind = Multiprocessors { count, ..test_multiprocessors() };
        prop_assert!(Sms::new(kind).fits(&SmShape::of(&launch, &kind)));
    }
}

#[test]
fn blocks_go_round_and_on_from_there() {
    let kind = Multiprocessors {
        count: 4,
        ..test_multiprocessors()
    };
    let mut sms = Sms::new(kind);
    let launch = |blocks| TaskLaunch {
        blocks,
        threads: 1024,
        ..TaskLaunch::default()
    };
    let shape = SmShape::of(&launch(3), &kind);
    let spread = sms.spread(&shape);
    assert_eq!(spread.counts(), [1, 1, 1, 0]);
    sms.charge(&shape, &spread);
    assert_eq!(sms.spread(&shape).counts(), [1, 1, 0, 1]);
    // Each holds two blocks of 32 warps: five more find a place, a sixth does not.
    assert!(sms.fits(&SmShape::of(&launch(5), &kind)));
    assert!(!sms.fits(&SmShape::of(&launch(6), &kind)));
    // Nor do those of a grid that is larger than the GPU: it wants all of it.
    let huge = SmShape::of(&launch(1_000_000), &kind);
    assert_eq!((huge.blocks, sms.fits(&huge)), (8, false));
    sms.release(&shape, &spread);
    assert!(sms.fits(&huge));
}

#[test]
fn occupancy_is_the_tightest_limit() {
    let kind = test_multiprocessors();
    let each = |threads, registers, shared| {
        let launch = TaskLaunch {
            blocks: u32::MAX,
            threads,
            registers,
            shared,
        };
        SmShape::of(&launch, &kind).per_sm
    };
    assert_eq!(each(256, 32, 0), 8);
    assert_eq!(each(32, 16, 0), 32);
    assert_eq!(each(1024, 64, 0), 1);
    assert_eq!(each(256, 32, 100 << 10), 2);
    // 96 registers: a warp takes 3072 of a part's 16384, so that 5 fit there.
    assert_eq!(each(7 * 32, 96, 0), 20 / 7);
    // What cannot be launched counts as a block that takes a multiprocessor.
    assert_eq!(each(1024, 255, 1 << 30), 1);
}
