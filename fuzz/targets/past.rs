//! Any bytes are the file of what programs took before (`mgbd.sock.past`), or nothing. What is one says the same to
//! the mgbd after the next, and tasks that it speaks of begin, grow and end.
#![no_main]

mod gpu;

use std::time::Duration;

use gpu::{MIB, gpu};
use libfuzzer_sys::fuzz_target;
use mgb_interface::Policy;
use mgb_probe::Need;
use mgb_probe::wire::{Op, Request, Text};
use mgb_scheduler::broker::{Broker, ProgramId, ServingRules, Snapshot};
use mgb_scheduler::daemon::fuzzing;

/// As in the seeds.
const PROGRAM: u64 = 7;

fn broker() -> Broker {
    Broker::new(vec![gpu(0), gpu(1)], ServingRules::new(Policy::Mgb))
}

fn request(op: Op, task: u64, bytes: u64) -> Request {
    Request {
        op,
        flags: 0,
        task,
        thread: task as u32,
        site: 3,
        gpus: u64::MAX,
        bytes,
        need: Need {
            mapped_bytes: bytes,
            ..Need::default()
        },
        first: 0,
        label: Text::new("a.cu:main"),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some(said) = fuzzing::past(bytes) else { return };
    let (mut one, mut next) = (broker(), broker());
    one.recall(&said);
    let kept = one.remembered();
    next.recall(&kept);
    assert_eq!(next.remembered(), kept);
    let mut now = Duration::from_secs(1000);
    for client in 1..=3 {
        one.arrive(client, client as u32);
        one.join(client, 0);
        one.identify(client, ProgramId::new(PROGRAM));
        for task in 1..=2 {
            one.request(client, task as usize, request(Op::Begin, task, 30 * MIB), now);
        }
        one.serve(&mut Snapshot::default(), now);
        one.request(client, 5, request(Op::Grow, 1, 20 * MIB), now);
        one.serve(&mut Snapshot::default(), now);
        one.wait_views(now);
        one.task_views(|_, _| 0, now);
        now += Duration::from_secs(60);
    }
    for client in 1..=3 {
        one.request(client, 6, request(Op::End, 1, 0), now);
        for lost in one.die(client, now) {
            one.freed(lost.id);
        }
        one.serve(&mut Snapshot::default(), now);
    }
    assert!((0..2).all(|gpu| one.ledger().charges(gpu).bytes() == 0));
});
