//! That more deadlines are met where the queue knows them: the real broker in virtual time, with arrivals
//! from fixed seeds. What each order makes of it is printed by `cargo bench -p mgb-scheduler --bench
//! deadlines`.

use mgb_interface::Queue;

#[path = "../benches/arrivals/mod.rs"]
mod arrivals;
#[path = "../benches/h200/mod.rs"]
mod h200;

use arrivals::{Outcome, PROGRAMS, Play, Programs, mean};

fn came(queue: Queue, admits: bool, load: f64, programs: Programs) -> Outcome {
    played(Play {
        queue,
        admits,
        holds: queue == Queue::Laxity,
        load,
        programs,
    })
}

fn played(play: Play) -> Outcome {
    mean(&play, 5, |index| h200::gpu(index, 100, 1))
}

#[test]
fn laxity_meets_more_deadlines_than_any_order_that_does_not_know_them() {
    for programs in PROGRAMS.into_iter().filter(|programs| programs.side_by_side == 1) {
        for (load, times) in [(0.5, 1.0), (0.8, 1.1), (1.2, 3.0)] {
            let plain = came(Queue::InOrder, false, load, programs);
            let laxity = came(Queue::Laxity, true, load, programs);
            assert!(
                laxity.met >= plain.met * times,
                "at {load}, {}: {laxity:?}, in order {plain:?}",
                programs.name
            );
            assert!(
                laxity.wasted <= plain.wasted,
                "at {load}, {}: {laxity:?}, in order {plain:?}",
                programs.name
            );
        }
    }
}

/// With either of them off less is met where there is too much to do.
#[test]
fn the_order_and_the_refusals_both_gain() {
    let both = came(Queue::Laxity, true, 1.2, PROGRAMS[0]);
    let order = came(Queue::Laxity, false, 1.2, PROGRAMS[0]);
    let refusals = came(Queue::InOrder, true, 1.2, PROGRAMS[0]);
    assert!(
        both.met > order.met && both.met > refusals.met,
        "{both:?} {order:?} {refusals:?}"
    );
}

/// Where several run side by side the order of the queue changes little, and who is held changes much.
#[test]
fn holds_meet_more_deadlines_where_programs_share_a_gpu() {
    for programs in PROGRAMS.into_iter().filter(|programs| programs.side_by_side > 1) {
        for (load, more) in [(0.5, 0.0), (0.8, 5.0), (1.2, 2.0)] {
            let play = |holds| {
                played(Play {
                    queue: Queue::Laxity,
                    admits: false,
                    holds,
                    load,
                    programs,
                })
            };
            let (with, without) = (play(true), play(false));
            assert!(
                with.met >= without.met + more,
                "at {load}, {}: {with:?}, without {without:?}",
                programs.name
            );
        }
    }
}
