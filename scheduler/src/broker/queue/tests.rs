//! Requests that wait, by themselves.

use mgb_probe::Need;
use mgb_probe::wire::{Op, Request, Text};

use super::*;
use crate::gpu_set::GpuSet;
use crate::policies::Waiter;
use crate::sms::TaskLaunch;

fn waiting(op: Op, client: ClientId, task: u64, cell: usize) -> Waiting {
    Waiting {
        queued: QueuedRequest {
            client,
            cell,
            request: Request {
                op,
                flags: 0,
                task,
                thread: 5,
                site: 0,
                gpus: 1,
                bytes: 8,
                need: Need::default(),
                first: 0,
                label: Text::default(),
            },
            since: Duration::from_secs(task),
        },
        bytes: 8,
        expected_bytes: 8,
        overhead: 0,
        gpus: GpuSet::of(0),
        fit: GpuSet::of(0),
        kind: None,
        is_known: false,
        at_least: Duration::ZERO,
    }
}

fn waiter(waiting: &Waiting) -> Waiter {
    Waiter {
        client: waiting.client,
        gpus: waiting.gpus,
        contexts: GpuSet::EMPTY,
        alone: false,
        bytes: waiting.bytes,
        launch: TaskLaunch::of(&waiting.request.need),
        since: waiting.since,
        expected: Duration::MAX,
        deadline: None,
        priority: 0,
        gathers: None,
    }
}

fn key(client: ClientId, task: u64) -> TaskKey {
    TaskKey { client, task }
}

/// Client 1 waits to begin tasks 1 (suspended) and 2, client 2 to begin task 3 and for growths of 4, one suspended.
fn queue() -> RequestQueue {
    let mut queue = RequestQueue::default();
    for begin in [waiting(Op::Begin, 2, 3, 30), waiting(Op::Begin, 1, 2, 20)] {
        let as_seen = waiter(&begin);
        queue.pending.begin(begin, as_seen);
    }
    queue.pending.grow(waiting(Op::Grow, 2, 4, 40));
    for suspended in [waiting(Op::Begin, 1, 1, 10), waiting(Op::Grow, 2, 4, 41)] {
        let suspended = SuspendedRequest::of(&suspended, SuspendReason::Lost);
        queue.suspended.add(suspended);
    }
    queue
}

#[test]
fn a_request_waits_whether_or_not_it_is_suspended() {
    let queue = queue();
    assert!(
        [key(1, 1), key(1, 2), key(2, 4)]
            .into_iter()
            .all(|key| queue.has(key))
    );
    assert!(!queue.has(key(1, 3)), "that is the other client's");
    let begin: Vec<usize> = queue.waiting_tasks().map(|task| task.cell).collect();
    assert_eq!(begin, [20, 30, 10]);
    assert_eq!(queue.asked_by(1), [(key(1, 2), 5), (key(1, 1), 5)]);
}

#[test]
fn growths_of_a_task_that_is_over_are_answered() {
    let mut queue = queue();
    queue.task_is_over(key(2, 4));
    let cells: Vec<usize> = queue.take_overdue().iter().map(|answer| answer.cell).collect();
    assert_eq!(cells, [40, 41]);
    assert!(!queue.has(key(2, 4)) && queue.has(key(2, 3)) && !queue.is_overdue());
}

#[test]
fn who_hangs_up_or_withdraws_waits_for_nothing() {
    let mut queue = queue();
    assert_eq!(queue.withdraw(key(1, 1)), [10]);
    assert_eq!(queue.withdraw(key(1, 2)), [20]);
    queue.answer_later(2, 9, Reply::Done);
    queue.hang_up(2);
    assert!(queue.pending.is_empty() && queue.suspended.is_empty() && !queue.is_overdue());
}

#[test]
fn a_request_that_is_refused_leaves() {
    let mut queue = queue();
    queue.refuse_later(1, 10, Reply::NoGpu);
    queue.refuse_later(2, 30, Reply::NoGpu);
    assert!(!queue.has(key(1, 1)) && !queue.has(key(2, 3)));
    assert_eq!(queue.take_overdue().len(), 2);
}
