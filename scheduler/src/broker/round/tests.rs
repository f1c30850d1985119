//! A round by itself.

use mgb_interface::Policy;
use mgb_probe::Need;
use mgb_probe::wire::{Op, Request, Text};

use super::*;
use crate::broker::queue::QueuedRequest;
use crate::broker::rules::ServingRules;
use crate::eviction::Speed;
use crate::ledger::{EvictedTime, Holding, TaskKey};
use crate::node::test_gpu;

/// A GPU of 100 bytes, on which client 1 has a task of 40 bytes; a context takes 10.
fn books() -> Books {
    let mut books = Books::new(vec![test_gpu(0, 100, 10)], ServingRules::new(Policy::Mgb));
    let holding = Holding {
        gpu: 0,
        reserved: 40,
        peak: 40,
        expected_bytes: 40,
        warps: 0,
        running: true,
        swapped: false,
        evicted: 0,
        whole_process: false,
        alone: false,
        may_go: GpuSet::EMPTY,
        label: Text::default(),
        granted: Duration::ZERO,
        deadline: None,
        may_rest: false,
        away: EvictedTime::default(),
    };
    let key = TaskKey { client: 1, task: 1 };
    books.ledger.grant(key, holding, 0).expect("it fits");
    books
}

fn growth(bytes: u64) -> Waiting {
    Waiting {
        queued: QueuedRequest {
            client: 1,
            cell: 3,
            request: Request {
                op: Op::Grow,
                flags: 0,
                task: 1,
                thread: 1,
                site: 0,
                gpus: 1,
                bytes,
                need: Need::default(),
                first: 0,
                label: Text::default(),
            },
            since: Duration::ZERO,
        },
        bytes,
        expected_bytes: bytes,
        overhead: 0,
        gpus: GpuSet::of(0),
        fit: GpuSet::of(0),
        kind: None,
        is_known: false,
        at_least: Duration::ZERO,
    }
}

fn snapshot(covered: u64, ahead: u64) -> Snapshot {
    Snapshot {
        covered: vec![Some(covered)],
        ahead: BTreeMap::from([((1, 0), ahead)]),
        ..Snapshot::default()
    }
}

#[test]
fn what_a_client_has_mapped_ahead_is_not_missing() {
    let books = books();
    let mut snapshot = snapshot(30, 8);
    let cover = Cover::take(&mut snapshot);
    let mut round = Round::new(&snapshot, cover, Duration::ZERO);
    let fits = |round: &Round<'_>, bytes| round.has_room_to_grow(&books.ledger, &growth(bytes), 0);
    assert!(
        fits(&round, 38) && !fits(&round, 39),
        "30 are shown free, and 8 are there"
    );
    round.spend_growth(&growth(20), 0);
    assert_eq!(round.covered(), [Some(18)]);
    assert!(
        fits(&round, 18) && !fits(&round, 19),
        "nothing is there ahead any more"
    );
    let (cover, _) = round.finish();
    cover.put(&mut snapshot);
    assert_eq!(snapshot.covered, [Some(18)], "the next round goes on from there");
}

#[test]
fn a_request_that_is_answered_leaves_the_queue() {
    let snapshot = Snapshot::default();
    let mut queue = RequestQueue::default();
    queue.pending.grow(growth(1));
    let mut round = Round::new(&snapshot, Cover::default(), Duration::ZERO);
    round.answer(&mut queue, &growth(1), Reply::Done);
    assert!(queue.pending.is_empty());
    let (_, answers) = round.finish();
    assert_eq!(answers.iter().map(|answer| answer.cell).collect::<Vec<_>>(), [3]);
}

#[test]
fn what_a_growth_lacks_is_known() {
    let (books, mut queue) = (books(), RequestQueue::default());
    queue.pending.grow(growth(60));
    let snapshot = snapshot(100, 0);
    let round = Round::new(&snapshot, Cover::copy(&snapshot), Duration::from_secs(2));
    let lacks = round.lacks(&books, &queue);
    assert_eq!((lacks.len(), lacks[0].gpus.as_slice()), (1, [(0, 10)].as_slice()));
    assert_eq!(lacks[0].waited, Duration::from_secs(2));
}

#[test]
fn a_gpu_is_stalled_where_its_only_process_waits() {
    let (mut books, mut queue, orders) = (books(), RequestQueue::default(), Orders::new(Speed::expected(1)));
    books.clients.arrive(1, 1);
    let (snapshot, now) = (snapshot(100, 0), Duration::from_secs(9));
    let mut round = Round::new(&snapshot, Cover::copy(&snapshot), now);
    round.survey(&books, &queue, &orders);
    assert!(round.stalled().is_empty() && round.holders().is_empty());
    queue.pending.grow(growth(60));
    round.survey(&books, &queue, &orders);
    assert_eq!((round.stalled(), round.holders().len()), (GpuSet::of(0), 1));
    let touched = TaskKey { client: 1, task: 1 };
    queue.touches.touch(touched, 7, now);
    round.survey(&books, &queue, &orders);
    assert_eq!(round.stalled(), GpuSet::of(0), "its own growth is what waits");
}
