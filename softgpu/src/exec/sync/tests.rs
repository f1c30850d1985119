//! Which threads go on in blocks of a few threads.

use super::*;
use crate::exec::warp::Vote;

fn barrier(predicate: bool, reduce: Option<Reduce>) -> WaitRequest {
    WaitRequest::Barrier {
        id: 0,
        threads: 0,
        reduce,
        predicate,
    }
}

/// A block whose threads say by a table what they wait for.
struct Told {
    sync: Sync,
    requests: Vec<WaitRequest>,
}

impl WaitRequests for Vec<WaitRequest> {
    fn of(&self, thread: u32) -> &WaitRequest {
        &self[thread as usize]
    }
}

impl Told {
    fn wait(&mut self, thread: u32, request: WaitRequest) {
        self.requests[thread as usize] = request;
        self.sync.wait(thread, &self.requests);
    }

    fn end(&mut self, thread: u32) {
        self.sync.end(thread, &self.requests);
    }

    fn take_turns(&mut self) -> bool {
        self.sync.take_turns(&self.requests)
    }
}

fn begun(threads: u32) -> Told {
    let mut sync = Sync::default();
    sync.begin(threads, 0..threads);
    Told {
        sync,
        requests: vec![WaitRequest::None; threads as usize],
    }
}

fn drain(told: &mut Told) -> Vec<u32> {
    std::mem::take(&mut told.sync.ready).into()
}

#[test]
fn a_barrier_waits_for_all_and_counts_the_ended() {
    let mut block = begun(3);
    assert_eq!(drain(&mut block), [0, 1, 2]);
    block.wait(0, barrier(true, Some(Reduce::Count)));
    block.wait(1, barrier(false, Some(Reduce::And)));
    assert!(block.sync.ready.is_empty());
    block.end(2);
    assert_eq!(drain(&mut block), [0, 1]);
    assert_eq!(block.sync.answers[..2], [1, 0]);
}

#[test]
fn disjoint_groups_of_a_warp_do_not_wait_for_each_other() {
    let mut block = begun(32);
    drain(&mut block);
    let ballot = |mask| {
        WaitRequest::Warp(WarpRequest::Vote {
            mask,
            kind: Vote::Ballot,
            predicate: true,
        })
    };
    block.wait(0, ballot(0b11));
    block.wait(2, ballot(0b1100));
    block.wait(3, ballot(0b1100));
    assert_eq!(drain(&mut block), [2, 3]);
    block.wait(1, ballot(0b11));
    assert_eq!(drain(&mut block), [0, 1]);
    assert_eq!(block.sync.answers[0], 0b11);
}

#[test]
fn active_lanes_are_those_at_the_same_place() {
    let mut block = begun(4);
    drain(&mut block);
    let active = |site| WaitRequest::Warp(WarpRequest::Active { site });
    block.wait(0, active(1));
    block.wait(1, active(2));
    block.wait(2, active(1));
    assert!(block.sync.ready.is_empty());
    block.wait(3, barrier(false, None));
    assert_eq!(drain(&mut block), [0, 1, 2]);
    assert_eq!(block.sync.answers[..3], [0b101, 0b010, 0b101]);
}

#[test]
fn votes_that_leave_their_lane_out_are_among_those_that_come() {
    let mut block = begun(4);
    drain(&mut block);
    for lane in 0..4 {
        assert!(block.sync.ready.is_empty(), "lane {lane} is waited for");
        // About those below: lane 0 asks about nobody.
        let request = WarpRequest::Vote {
            mask: (1 << lane) - 1,
            kind: Vote::Ballot,
            predicate: lane != 1,
        };
        block.wait(lane, WaitRequest::Warp(request));
    }
    assert_eq!(drain(&mut block), [0, 1, 2, 3]);
    assert_eq!(block.sync.answers[..4], [0, 0b1, 0b1, 0b101]);
}

#[test]
fn arriving_is_not_waiting() {
    let mut block = begun(64);
    drain(&mut block);
    let named = |thread, wait| match wait {
        true => (
            thread,
            WaitRequest::Barrier {
                id: 3,
                threads: 2,
                reduce: None,
                predicate: false,
            },
        ),
        false => (thread, WaitRequest::Arrive { id: 3, threads: 2 }),
    };
    for (thread, request) in [named(0, false), named(40, true)] {
        block.wait(thread, request);
    }
    assert_eq!(drain(&mut block), [0, 40]);
    block.wait(1, named(1, true).1);
    assert!(block.sync.ready.is_empty());
}

#[test]
fn who_lets_others_run_comes_after_them() {
    let mut block = begun(2);
    drain(&mut block);
    block.sync.turn(0);
    assert!(block.sync.ready.is_empty());
    block.wait(1, WaitRequest::Warp(WarpRequest::Active { site: 1 }));
    assert!(block.take_turns());
    assert_eq!(drain(&mut block), [1, 0]);
    assert_eq!(block.sync.answers[1], 0b10);
    assert!(!block.take_turns());
}

#[test]
fn who_hangs_is_described() {
    let mut block = begun(64);
    drain(&mut block);
    block.wait(0, barrier(false, None));
    block.wait(33, WaitRequest::Warp(WarpRequest::Sync { mask: u32::MAX }));
    let text = block.sync.describe(&block.requests);
    assert!(text.contains("1 of 64 threads wait at barrier 0"), "{text}");
    assert!(
        text.contains("lanes 0x00000002 of warp 1 wait in __syncwarp with mask 0xffffffff"),
        "{text}"
    );
}

/// Of a warp of three lanes one has ended: it is not asked for matrices, and what it would have is zero.
#[test]
fn a_product_is_that_of_the_lanes_that_are_left() {
    const DOUBLES_8X8X4: u64 = 8 | 8 << 8 | 4 << 16 | 0x4444 << 32;
    let mut block = begun(3);
    drain(&mut block);
    // A, B and two of C.
    let mut rooms = [[2.0, 3.0, 10.0, 20.0], [5.0, 7.0, 30.0, 40.0]];
    block.requests[2] = barrier(false, None);
    block.end(2);
    for (lane, room) in rooms.iter_mut().enumerate() {
        let request = WarpRequest::Matrix {
            shape: DOUBLES_8X8X4,
            operands: room.as_mut_ptr().cast(),
        };
        block.wait(lane as u32, WaitRequest::Warp(request));
    }
    assert_eq!(drain(&mut block), [0, 1]);
    // Row 0 of A is 2, 5, 0, 0; column 0 of B is 3, 7, 0, 0; the other columns are zero.
    assert_eq!(rooms[0][..2], [10.0 + 2.0 * 3.0 + 5.0 * 7.0, 20.0]);
    assert_eq!(rooms[1][..2], [30.0, 40.0]);
}
