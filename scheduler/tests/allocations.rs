//! What the broker takes from the heap in a round that changes nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use mgb_interface::Policy;
use mgb_probe::wire::{Op, Request, Text};
use mgb_probe::{Gpu, Need};
use mgb_scheduler::broker::{Broker, ServingRules, Snapshot};
use mgb_scheduler::node::capability;
use mgb_scheduler::quota::{Account, Limits, Owner};

const GIB: u64 = 1 << 30;
const USERS: u32 = 500;

/// The system's allocator, which counts.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator, and a number of the thread's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: what the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: what the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn gpu() -> Gpu {
    Gpu {
        index: 0,
        node_index: 0,
        uuid: "GPU-0".to_owned(),
        name: "made up".to_owned(),
        total_bytes: 80 * GIB,
        usable_bytes: 80 * GIB,
        context_bytes: GIB / 2,
        max_warps: 8448,
        multiprocessors: capability::multiprocessors(16896, 9, 0),
    }
}

fn begin(number: u64) -> Request {
    Request {
        op: Op::Begin,
        flags: 0,
        task: 1,
        thread: 1,
        site: number as u32,
        gpus: u64::MAX,
        bytes: 60 * GIB,
        need: Need {
            mapped_bytes: 60 * GIB,
            grid_blocks: 1,
            block_threads: 256,
            registers: 32,
            ..Need::default()
        },
        first: 0,
        label: Text::new("tests.cu:main"),
    }
}

#[test]
fn counting_who_waits_costs_nothing_where_nobody_new_does() {
    let mut broker = Broker::new(vec![gpu()], ServingRules::new(Policy::Mgb));
    let at = Duration::from_secs;
    for user in 1..=USERS {
        let waiting = Limits {
            waiting: Some(1),
            ..Limits::default()
        };
        let account = Account {
            limits: vec![(Owner::User(user), waiting)],
            ..Account::default()
        };
        broker.has_account(user, account);
        broker.arrive(user.into(), user);
        broker.belongs_to(user.into(), user);
        assert_eq!(broker.request(user.into(), 0, begin(user.into()), at(1)), None);
    }
    let answers = broker.serve(&mut Snapshot::default(), at(1));
    assert_eq!(answers.len(), 1, "the others wait");
    assert!(broker.refuse_beyond_waiting(at(2)).is_empty());
    let before = COUNT.get();
    for round in 3..103 {
        assert!(broker.refuse_beyond_waiting(at(round)).is_empty());
    }
    assert_eq!(COUNT.get() - before, 0);
}
