//! Which threads of a block wait for which: barriers, and operations of warps.
//!
//! This is bookkeeping only, on thread numbers; [`super::fibers`] runs the threads. A thread that has
//! ended counts as arrived wherever all threads, or all of a mask, are waited for.

mod describe;

use std::collections::VecDeque;

use super::matrix;
use super::thread::{Reduce, WaitRequest};
use super::warp::{self, WarpRequest, lanes};

/// Barriers of a block, as the hardware has them.
const BARRIERS: usize = 16;

/// The state of a block's threads.
#[derive(Default)]
pub struct Sync {
    threads: u32,
    live: u32,
    barriers: [Barrier; BARRIERS],
    /// The barriers that a thread has come to, a bit each.
    open: u32,
    warps: Vec<Warp>,
    /// Threads that can go on.
    pub ready: VecDeque<u32>,
    /// What each released thread's operation gave it.
    pub answers: Vec<u32>,
    /// Threads that can go on, and let others run before.
    later: Vec<u32>,
    /// Empty, with room: for those that a barrier releases.
    released: Vec<(u32, Option<Reduce>)>,
}

#[derive(Clone, Default)]
struct Barrier {
    /// The threads that wait, and how to reduce for each.
    waiting: Vec<(u32, Option<Reduce>)>,
    /// How many have come, and gone on without waiting.
    passed: u32,
    /// 0: all threads of the block.
    expected: u32,
    count: u32,
}

#[derive(Clone)]
struct Warp {
    /// Lanes that have not ended.
    live: u32,
    /// Lanes that wait, for anything.
    waiting: u32,
    /// Of those, the ones that wait for lanes of a mask.
    grouped: u32,
    /// Of those, the ones that ask which lanes are active.
    asking: u32,
}

/// Where threads say what they wait for. It is read where they wrote it: to copy what was written a moment
/// ago stalls the processor for longer than all else that is done here.
pub trait WaitRequests {
    /// What a thread waits for.
    fn of(&self, thread: u32) -> &WaitRequest;

    /// What a thread that waits for others of its warp does.
    fn of_warp(&self, thread: u32) -> &WarpRequest {
        match self.of(thread) {
            WaitRequest::Warp(request) => request,
            other => unreachable!("thread {thread} waits for its warp, by {other:?}"),
        }
    }
}

impl Sync {
    /// A block whose threads can all run, in this order. What was allocated for an earlier block is used
    /// again.
    pub fn begin(&mut self, threads: u32, order: impl Iterator<Item = u32>) {
        self.threads = threads;
        self.live = threads;
        for barrier in &mut self.barriers {
            barrier.waiting.clear();
            (barrier.passed, barrier.expected, barrier.count) = (0, 0, 0);
        }
        self.open = 0;
        self.warps.clear();
        self.warps.extend((0..threads.div_ceil(32)).map(|warp| Warp {
            live: u32::MAX >> 32u32.saturating_sub(threads - warp * 32).min(31),
            waiting: 0,
            grouped: 0,
            asking: 0,
        }));
        self.ready.clear();
        self.ready.extend(order);
        self.answers.clear();
        self.answers.resize(threads as usize, 0);
        self.later.clear();
    }

    /// Whether all threads have ended.
    pub fn over(&self) -> bool {
        self.live == 0
    }

    /// A thread waits.
    pub fn wait(&mut self, thread: u32, asked: &impl WaitRequests) {
        let request = asked.of(thread);
        if let WaitRequest::Turn = request {
            return self.turn(thread);
        }
        let (number, lane) = (thread as usize / 32, thread % 32);
        self.warps[number].waiting |= 1 << lane;
        match *request {
            WaitRequest::None | WaitRequest::Turn => self.release(thread, 0),
            WaitRequest::Barrier {
                id,
                threads,
                reduce,
                predicate,
            } => {
                let id = id as usize % BARRIERS;
                let barrier = &mut self.barriers[id];
                barrier.waiting.push((thread, reduce));
                barrier.expected = threads;
                barrier.count += u32::from(predicate);
                self.open |= 1 << id;
                self.try_barrier(id);
            }
            WaitRequest::Arrive { id, threads } => {
                let id = id as usize % BARRIERS;
                self.barriers[id].passed += 1;
                self.barriers[id].expected = threads;
                self.open |= 1 << id;
                self.release(thread, 0);
                self.try_barrier(id);
            }
            WaitRequest::Warp(WarpRequest::Active { .. }) => self.warps[number].asking |= 1 << lane,
            WaitRequest::Warp(request) if request.leaves_out(lane) => self.warps[number].asking |= 1 << lane,
            WaitRequest::Warp(_) => {
                self.warps[number].grouped |= 1 << lane;
                self.try_group(number, lane, asked);
            }
        }
        self.try_active(number, asked);
    }

    /// A thread lets others run.
    pub fn turn(&mut self, thread: u32) {
        self.later.push(thread);
    }

    /// Once no other thread can go on: it is the turn of threads that yielded, and of the lanes that ask
    /// which are active, since a lane that only looks whether it may go on will not come to them. `false` if
    /// there is nobody.
    pub fn take_turns(&mut self, asked: &impl WaitRequests) -> bool {
        for number in 0..self.warps.len() {
            self.answer_active(number, asked);
        }
        self.ready.extend(self.later.drain(..));
        !self.ready.is_empty()
    }

    /// A thread has ended.
    pub fn end(&mut self, thread: u32, asked: &impl WaitRequests) {
        let (number, lane) = (thread as usize / 32, thread % 32);
        self.live -= 1;
        self.warps[number].live &= !(1 << lane);
        for id in lanes(self.open) {
            if self.barriers[id as usize].expected == 0 {
                self.try_barrier(id as usize);
            }
        }
        for lane in lanes(self.warps[number].grouped) {
            self.try_group(number, lane, asked);
        }
        self.try_active(number, asked);
    }

    fn release(&mut self, thread: u32, answer: u32) {
        self.warps[thread as usize / 32].waiting &= !(1 << (thread % 32));
        self.answers[thread as usize] = answer;
        self.ready.push_back(thread);
    }

    fn try_barrier(&mut self, id: usize) {
        let barrier = &mut self.barriers[id];
        let arrived = barrier.waiting.len() as u32;
        let complete = if barrier.expected == 0 {
            arrived == self.live
        } else {
            arrived + barrier.passed >= barrier.expected
        };
        if arrived + barrier.passed == 0 || !complete {
            return;
        }
        barrier.passed = 0;
        let count = std::mem::take(&mut barrier.count);
        std::mem::swap(&mut barrier.waiting, &mut self.released);
        self.open &= !(1 << id);
        for at in 0..self.released.len() {
            let (thread, reduce) = self.released[at];
            let answer = match reduce {
                None => 0,
                Some(Reduce::Count) => count,
                Some(Reduce::And) => u32::from(count == arrived),
                Some(Reduce::Or) => u32::from(count > 0),
            };
            self.release(thread, answer);
        }
        self.released.clear();
    }

    /// Completes the operation that `lane` waits for, if all live lanes of its mask have come to it.
    fn try_group(&mut self, number: usize, lane: u32, asked: &impl WaitRequests) {
        let warp = &mut self.warps[number];
        if warp.grouped >> lane & 1 == 0 {
            return;
        }
        let first = number as u32 * 32;
        let request = asked.of_warp(first + lane);
        let members = (request.mask().unwrap_or(0) | 1 << lane) & warp.live;
        let come = |lane: u32| asked.of_warp(first + lane).meets(request);
        if members & !warp.grouped != 0 || !lanes(members).all(come) {
            return;
        }
        warp.grouped &= !members;
        if let WarpRequest::Matrix { shape, .. } = *request {
            // A lane that is no member has ended, or was never there: it asks for nothing.
            let of =
                |lane: usize| match (members >> lane & 1 == 1).then(|| asked.of_warp(first + lane as u32)) {
                    Some(&WarpRequest::Matrix { operands, .. }) => operands,
                    _ => std::ptr::null_mut(),
                };
            // SAFETY: the service checked the shape. Each member handed in its registers, which stay where
            // they are while it waits: contract of `softgpu_calls.matrix`.
            unsafe { matrix::multiply(shape, of) };
        }
        let answers = warp::answers(|lane| asked.of_warp(first + lane), members);
        for lane in lanes(members) {
            self.release(first + lane, answers[lane as usize]);
        }
    }

    /// Once every live lane waits for something, those that ask which are active get the answer: the lanes
    /// that ask at the same instruction. So lanes that run the same code together see each other, and
    /// those that took another branch do not show. Lanes that vote under masks without themselves wait
    /// for no lane by name, and vote then.
    fn try_active(&mut self, number: usize, asked: &impl WaitRequests) {
        let warp = &self.warps[number];
        if warp.live & !warp.waiting == 0 {
            self.answer_active(number, asked);
        }
    }

    fn answer_active(&mut self, number: usize, asked: &impl WaitRequests) {
        let asking = std::mem::take(&mut self.warps[number].asking);
        let first = number as u32 * 32;
        for lane in lanes(asking) {
            let own = asked.of_warp(first + lane);
            let same = lanes(asking).filter(|&other| asked.of_warp(first + other).comes_with(own));
            let members = same.fold(0, |mask, other| mask | 1u32 << other);
            let answer = match *own {
                WarpRequest::Vote { mask, kind, .. } => {
                    let ballot = warp::ballot(|lane| asked.of_warp(first + lane), members & mask);
                    warp::result(kind, ballot, members & mask)
                }
                _ => members,
            };
            self.release(first + lane, answer);
        }
    }
}

#[cfg(test)]
mod tests;
