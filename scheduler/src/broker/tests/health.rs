//! GPUs that fail by the driver's word.

use mgb_probe::view::{HeldBack, Hindrance};

use super::control::{NOBODY, begin, broker, granted, idle, order};
use super::*;
use crate::journal::{Image, Standing};
use crate::node::health::{Ailment, News, States};

const PENDING: States = States {
    rows_pending: true,
    rows_failed: false,
    uncorrectable: 0,
};

fn xid(number: u64) -> News {
    News::Event(Ailment::Xid(number))
}

/// What the next broker over as many GPUs begins with.
fn next(broker: &mut Broker, gpus: &[u64]) -> Broker {
    let standing = broker.take_changes().1.expect("something has changed");
    let image = Image {
        standing,
        ..Image::default()
    };
    let mut next = self::broker(gpus);
    next.bring_in(&image, &BTreeMap::new(), seconds(0));
    next
}

#[test]
fn a_gpu_that_fails_takes_nobody_and_who_is_at_work_there_goes_on() {
    let mut broker = broker(&[100 * MIB]);
    begin(&mut broker, 1, 60, seconds(0));
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(0)), [1]);
    assert_eq!(broker.has_health(0, xid(95), seconds(1)), [Ailment::Xid(95)]);
    let mut busy = idle(&[1], 0, Duration::ZERO);
    broker.request(1, 0, request(Op::Grow, 1, MIB, 1), seconds(2));
    assert_eq!(granted(&mut broker, &mut busy, seconds(2)), [1]);
    assert_eq!(broker.take_orders(), []);
    assert_eq!(broker.leaving_views()[0].hindrance, Some(Hindrance::Busy));
    begin(&mut broker, 2, 10, seconds(3));
    assert_eq!(granted(&mut broker, &mut busy, seconds(3)), NOBODY);
    assert_eq!(
        broker.wait_views(seconds(3))[0].held_back,
        Some(HeldBack::Drained)
    );
    assert_eq!(order(&mut broker, Op::EndDrain, 0, 0, seconds(4)), Reply::Done);
    assert_eq!(granted(&mut broker, &mut busy, seconds(4)), [2]);
    assert_eq!(broker.ailments(0), []);
}

#[test]
fn what_programs_cause_and_gpus_that_are_not_there_drain_nothing() {
    let mut broker = broker(&[100 * MIB]);
    for number in [13, 31, 43, 45, 68, 109, u64::MAX] {
        assert_eq!(broker.has_health(0, xid(number), seconds(1)), []);
    }
    for gpu in [1, 64, usize::MAX] {
        assert_eq!(broker.has_health(gpu, xid(79), seconds(1)), []);
    }
    assert!(!broker.has_drained());
    assert_eq!(broker.take_changes().1, None);
}

#[test]
fn a_person_s_word_holds_until_something_new_happens_also_under_the_next_mgbd() {
    let gpus = [100 * MIB];
    let mut first = broker(&gpus);
    let pending = News::States(PENDING);
    assert_eq!(first.has_health(0, pending, seconds(1)), [Ailment::RowsPending]);
    let mut drained = next(&mut first, &gpus);
    assert!(drained.is_drained(0));
    assert_eq!(drained.ailments(0), [Ailment::RowsPending]);
    assert_eq!(order(&mut drained, Op::EndDrain, 0, 0, seconds(2)), Reply::Done);
    let mut again = next(&mut drained, &gpus);
    // The driver says it to each mgbd that begins.
    for broker in [&mut drained, &mut again] {
        assert_eq!(broker.has_health(0, pending, seconds(3)), []);
        assert!(!broker.is_drained(0));
        let one_error = States {
            uncorrectable: 1,
            ..PENDING
        };
        assert_eq!(
            broker.has_health(0, News::States(one_error), seconds(4)),
            [Ailment::Uncorrectable(1)]
        );
        assert!(broker.is_drained(0));
    }
}

#[test]
fn each_kind_is_said_once_and_a_person_sees_all() {
    let mut broker = broker(&[100 * MIB, 100 * MIB]);
    assert_eq!(broker.has_health(1, xid(48), seconds(1)), [Ailment::Xid(48)]);
    for count in 1..=3 {
        let states = News::States(States {
            uncorrectable: count,
            ..States::default()
        });
        // At first nobody knows how old they are.
        let new: &[Ailment] = match count {
            2 => &[Ailment::Uncorrectable(2)],
            _ => &[],
        };
        assert_eq!(broker.has_health(1, states, seconds(2)), new);
        assert_eq!(broker.has_health(1, xid(48), seconds(2)), []);
    }
    let all = [Ailment::Xid(48), Ailment::Uncorrectable(3)];
    assert_eq!(broker.ailments(1), all);
    assert_eq!((broker.is_drained(0), broker.is_drained(1)), (false, true));
}

#[test]
fn where_failing_gpus_are_used_on_they_are_known_and_a_person_ends_that() {
    let mut broker = broker(&[100 * MIB]);
    broker.books.rules.drains_failing = false;
    assert_eq!(broker.has_health(0, xid(79), seconds(1)), [Ailment::Xid(79)]);
    assert!(!broker.has_drained());
    assert_eq!(order(&mut broker, Op::EndDrain, 0, 0, seconds(2)), Reply::Done);
    assert_eq!(broker.ailments(0), []);
    assert_eq!(
        order(&mut broker, Op::EndDrain, 0, 0, seconds(2)),
        Reply::Unchanged
    );
}

#[test]
fn a_journal_that_names_other_gpus_is_believed_for_none_of_them() {
    let image = Image {
        standing: Standing {
            ailments: vec![(64, vec![Ailment::Xid(79)]), (usize::MAX, Vec::new())],
            health: vec![(64, PENDING), (0, PENDING)],
            ..Standing::default()
        },
        ..Image::default()
    };
    let mut broker = broker(&[100 * MIB]);
    broker.bring_in(&image, &BTreeMap::new(), seconds(0));
    assert!(
        (0..1)
            .chain([64, usize::MAX])
            .all(|gpu| broker.ailments(gpu).is_empty())
    );
    assert_eq!(broker.has_health(0, News::States(PENDING), seconds(1)), []);
}
